"""Ends alerts of others whose time is over, and removes those that ended long ago.

Guarantee: an alert that its system said would end has ended then, unless it was told of again; one of which nothing was
heard for `SILENT` has, too: systems that do not say "resolved" leave no incident open for ever. A look that finds
nothing to do takes no write lock.
"""

from datetime import datetime, timedelta

from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from controlplane import ledger
from controlplane.db.database import Database
from controlplane.inbound.tables import InboundAlertRow
from controlplane.inbound.taking_in import FIRING, RESOLVED, end, forget

SILENT = timedelta(hours=24)
"""Alertmanager and Grafana repeat what fires every four hours, as they come."""
ITS_END, UNHEARD = "is over: its end has come", "was not heard of for a day, and counts as over"
BATCH = 500


class InboundKeeper:
    """Call `tick` every few seconds, `expire` now and then."""

    def __init__(self, database: Database, kept: timedelta | None = None) -> None:
        """kept: how long those that are over are kept; None: for ever."""
        self._database = database
        self._kept = kept

    def tick(self, now: datetime) -> None:
        with self._database.read_session() as session:
            idle = session.exec(_ended(now).limit(1)).first() is None
        if not idle:
            with self._database.session() as session:
                end_overdue(session, now)

    def expire(self, now: datetime) -> None:
        if self._kept is None:
            return
        with self._database.session() as session:
            query = select(InboundAlertRow.id).where(
                InboundAlertRow.status == RESOLVED, col(InboundAlertRow.ends_at) < now - self._kept
            )
            forget(session, [number for number in session.exec(query.limit(BATCH)) if number is not None])


def end_overdue(session: Session, now: datetime) -> None:
    for row in session.exec(_ended(now).limit(BATCH).with_for_update()):
        said = row.ends_at is not None and row.ends_at <= now
        end(session, row, now, actor=ledger.SERVICE, why=ITS_END if said else UNHEARD)


def _ended(now: datetime) -> SelectOfScalar[InboundAlertRow]:
    row = InboundAlertRow
    late = (col(row.ends_at) <= now) | (col(row.received_at) <= now - SILENT)
    return select(row).where(row.status == FIRING, late).order_by(col(row.id))
