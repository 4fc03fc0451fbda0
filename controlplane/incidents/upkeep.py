"""Keeps incidents in step with alerts: takes in each that fires, and resolves what has been quiet for long enough.

Guarantees: an alert that has fired is of exactly one incident (its number is the key of the row that says so, whichever
of two replicas is faster); what is decided is decided purely (`same_cause`, `machine`), and written in one transaction;
a look that finds nothing to do takes no write lock.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.duration_text import duration_text
from controlplane.contract.on_call.incidents import IncidentState, Route
from controlplane.db.database import Database
from controlplane.incidents import machine, store
from controlplane.incidents.routes import key_of, labels_of, route_of
from controlplane.incidents.same_cause import Grouped, joining, sign_of
from controlplane.incidents.store import OPEN_STATES
from controlplane.incidents.tables import IncidentRow
from controlplane.incidents.view import numbers

MISSED = timedelta(hours=1)
"""An alert that was over before anybody looked is taken in so long after it fired."""
QUIET = f"none of its alerts has fired for {duration_text(machine.SETTLE.total_seconds())}"


class IncidentKeeper:
    """Call `tick` every few seconds."""

    def __init__(self, database: Database, kept: timedelta | None = None) -> None:
        """kept: how long incidents that are over are kept; None: for ever."""
        self._database = database
        self._kept = kept

    def tick(self, now: datetime) -> None:
        with self._database.read_session() as session:
            idle = not store.not_taken_in(session, now, MISSED) and not _is_moving(session, now)
        if not idle:
            with self._database.session() as session:
                take_in(session, now)
                settle(session, now)

    def expire(self, now: datetime) -> None:
        """Remove what has been over for too long."""
        if self._kept is not None:
            with self._database.session() as session:
                store.forget(session, now - self._kept)


def take_in(session: Session, now: datetime) -> None:
    """Each alert that has fired joins the incident of its cause, or opens one."""
    found = store.not_taken_in(session, now, MISSED)
    if not found:
        return
    routes, incidents = store.routes(session), _grouped(session, now)
    for alert in found:
        route = route_of(routes, labels_of(alert))
        place(session, alert, route, incidents, now)


def place(session: Session, alert: Alert, route: Route | None, incidents: dict[int, Grouped], now: datetime) -> None:
    """Write where the alert belongs; `incidents` is what the next one is compared with."""
    key, sign = key_of(route, labels_of(alert)), sign_of(alert)
    number = None if route is None else route.id
    found = joining(sign, number, key, incidents.values())
    if found is None:
        made = store.open_incident(session, alert, route, key, now)
        incidents[made] = Grouped(made, number, key, (sign,))
        return
    store.join(session, found.incident_id, alert, found.why, now)
    joined = incidents[found.incident_id]
    joined.is_open = True
    joined.add(sign)


def settle(session: Session, now: datetime) -> None:
    """What its alerts make of each open incident; one that has been quiet for long enough is resolved."""
    rows = _open(session, lock=True)
    signs = store.signs_of(session, numbers(rows))
    for row in rows:
        store.restate(session, row, now, signs[row.id or 0])
        if machine.has_settled(row.quiet_since, now):
            store.end(session, row, actor=ledger.SERVICE, now=now, reason=QUIET)


def _is_moving(session: Session, now: datetime) -> bool:
    """Whether `settle` would write anything."""
    rows = _open(session)
    signs = store.signs_of(session, numbers(rows))
    for row in rows:
        told = store.restated(row, signs[row.id or 0], now)
        if any(getattr(row, name) != value for name, value in told.items()):
            return True
        if machine.has_settled(row.quiet_since, now):
            return True
    return False


def _open(session: Session, *, lock: bool = False) -> Sequence[IncidentRow]:
    query = select(IncidentRow).where(col(IncidentRow.state).in_(OPEN_STATES)).order_by(col(IncidentRow.id))
    return session.exec(query.with_for_update() if lock else query).all()


def _grouped(session: Session, now: datetime) -> dict[int, Grouped]:
    """Open incidents, and those that ended so lately that the same alert would open them again."""
    lately = (col(IncidentRow.state) == IncidentState.RESOLVED.value) & (
        col(IncidentRow.resolved_at) > now - machine.REOPEN
    )
    rows = session.exec(select(IncidentRow).where(col(IncidentRow.state).in_(OPEN_STATES) | lately)).all()
    signs = store.signs_of(session, numbers(rows))
    return {
        row.id: Grouped(row.id, row.route_id, row.group_key, signs[row.id], row.state in OPEN_STATES)
        for row in rows
        if row.id is not None
    }
