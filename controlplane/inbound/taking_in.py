"""Taking in what others tell of their alerts, inside the caller's transaction: each that fires is an alert here.

Guarantees: an alert is one however often it is told of and whenever its system says that it began; "resolved" is never
undone by a late "firing"; at most as many are taken as there is room for (`Room`), and what is not taken is counted;
one of our own that comes back through Alertmanager is passed over; the ledger tells of each that is new or over.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlsplit

from sqlalchemy import delete, func, text
from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.alerts.channels.alertmanager import FINGERPRINT
from controlplane.alerts.tables import AlertRow
from controlplane.contract.bodies.alerts import OURS, AlertState
from controlplane.contract.channels.inbound import InboundTaken
from controlplane.fleet.tables import NodeRow
from controlplane.inbound.foreign_alerts import ForeignAlert
from controlplane.inbound.room import DAY, MOST_KEPT, Refusal, Room
from controlplane.inbound.tables import InboundAlertRow
from controlplane.inbound.their_words import KnownNode, name_of, place_of, severity_of, title_of

FIRING, RESOLVED = AlertState.FIRING.value, AlertState.RESOLVED.value
KIND = "inbound"
NOBODYS_OWN = frozenset({"", "localhost", "127.0.0.1", "::1"})
_LOCK = 0x696E626F
"""PostgreSQL's advisory lock of who takes in ("inbo"): two of a pair of Alertmanagers often tell the same at once."""


class Taken(StrEnum):
    """What came of one alert."""

    SAME = "same"  # It was told of before, as it is.
    CHANGED = "changed"  # It is new, or over.
    OURS = "ours"  # It is one of our own.
    REFUSED = "refused"  # It is new, and there is no room.


@dataclass
class _Intake:
    """One message. rows: of the alerts that it tells of, by fingerprint, the oldest first."""

    session: Session
    source: str
    actor: str
    now: datetime
    rows: dict[str, list[InboundAlertRow]]
    nodes: Sequence[KnownNode]
    ours: frozenset[str]
    room: Room
    refused: Counter[Refusal] = field(default_factory=Counter)

    def take(self, alert: ForeignAlert) -> Taken:
        rows = self.rows.setdefault(alert.fingerprint, [])
        same = next((row for row in rows if row.starts_at == alert.starts_at), None)
        fires = next((row for row in rows if row.status == FIRING), None)
        if same is not None and same.status == RESOLVED:
            return Taken.SAME
        if fires is not None:
            return self._told_again(fires, alert)
        return self._new(alert)

    def _told_again(self, row: InboundAlertRow, alert: ForeignAlert) -> Taken:
        """Of one that fires. One that began later over there is the same: its system was started again."""
        if alert.starts_at < row.starts_at:
            return Taken.SAME
        row.starts_at, row.received_at, row.sent_by = alert.starts_at, self.now, str(self.actor)
        row.ends_at = alert.ends_at
        self.session.add(row)
        if alert.status == FIRING:
            return Taken.SAME
        end(self.session, row, self.now, actor=self.actor)
        self.room.open -= 1
        return Taken.CHANGED

    def _new(self, alert: ForeignAlert) -> Taken:
        if alert.labels.get(FINGERPRINT) in self.ours:
            return Taken.OURS
        refusal = self.room.refusal()
        if refusal is not None:
            self.refused[refusal] += 1
            return Taken.REFUSED
        self.room.take(firing=alert.status == FIRING)
        row = InboundAlertRow(
            source=self.source, **alert.columns, taken_at=self.now, received_at=self.now, sent_by=str(self.actor)
        )
        if alert.status == FIRING:
            row.alert_id = self._fire(alert)
        self.session.add(row)
        self.session.flush()
        self.rows[alert.fingerprint].append(row)
        _tell(self.session, row, self.now, self.actor, "fires" if alert.status == FIRING else "is over")
        return Taken.CHANGED

    def _fire(self, alert: ForeignAlert) -> int:
        """The number of the alert that stands for it here."""
        place = place_of(alert.labels, self.nodes)
        row = AlertRow(
            fingerprint=f"{self.source}:{alert.fingerprint}",
            rule_id=0,
            rule=name_of(alert.labels),
            kind=KIND,
            source=self.source,
            link=alert.link,
            pool=place.get("pool", ""),
            state=FIRING,
            severity=severity_of(alert.labels).value,
            labels={**alert.labels, **place},
            summary=title_of(alert.labels, alert.annotations),
            started_at=alert.starts_at,
            breach_since=alert.starts_at,
            fired_at=self.now,
            evidence={"annotations": alert.annotations},
        )
        self.session.add(row)
        self.session.flush()
        assert row.id is not None
        return row.id


def take_in(
    session: Session, source: str, alerts: Sequence[ForeignAlert], *, actor: str, now: datetime
) -> tuple[InboundTaken, Mapping[Refusal, int]]:
    """What came of a message, and what was refused, by reason."""
    if session.connection().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    rows = _known(session, source, alerts)
    intake = _Intake(session, source, actor, now, rows, _nodes(session), _ours(session, alerts), _room(session, now))
    came = Counter(intake.take(one) for one in alerts)
    kept = len(alerts) - came[Taken.REFUSED] - came[Taken.OURS]
    told = InboundTaken(
        taken=kept,
        changed=came[Taken.CHANGED],
        ours=came[Taken.OURS],
        refused=came[Taken.REFUSED],
        shortened=sum(one.shortened for one in alerts),
    )
    return told, intake.refused


def end(session: Session, row: InboundAlertRow, now: datetime, *, actor: str, why: str = "is over") -> None:
    """It ended when its system said, or now."""
    row.status, row.ends_at = RESOLVED, min(row.ends_at or now, now)
    session.add(row)
    alert = None if row.alert_id is None else session.get(AlertRow, row.alert_id)
    if alert is not None and alert.state == FIRING:
        alert.state, alert.resolved_at = RESOLVED, max(row.ends_at, alert.started_at)
        session.add(alert)
    _tell(session, row, now, actor, why)


def _tell(session: Session, row: InboundAlertRow, now: datetime, actor: str, why: str) -> None:
    told = {"labels": row.labels, "link": row.link, "fingerprint": row.fingerprint, "alert": row.alert_id}
    message = f"{row.source} says that {name_of(row.labels)} {why}"
    ledger.append(session, now, actor, f"inbound.{row.status}", f"inbound-alert/{row.id}", message, **told)


def _known(session: Session, source: str, alerts: Iterable[ForeignAlert]) -> dict[str, list[InboundAlertRow]]:
    query = select(InboundAlertRow).where(
        InboundAlertRow.source == source,
        col(InboundAlertRow.fingerprint).in_({alert.fingerprint for alert in alerts}),
    )
    found: dict[str, list[InboundAlertRow]] = {}
    for row in session.exec(query.order_by(col(InboundAlertRow.id)).with_for_update()):
        found.setdefault(row.fingerprint, []).append(row)
    return found


def _nodes(session: Session) -> list[KnownNode]:
    rows = session.exec(select(NodeRow.node, NodeRow.pool, NodeRow.engine_url).order_by(col(NodeRow.node)))
    found = [(node, pool, urlsplit(url or "").hostname or "") for node, pool, url in rows]
    times = Counter(host for _, _, host in found)
    alone = {host for host in times if times[host] == 1} - NOBODYS_OWN
    return [KnownNode(node, pool, host if host in alone else "") for node, pool, host in found]


def _ours(session: Session, alerts: Iterable[ForeignAlert]) -> frozenset[str]:
    """Which of the fingerprints that their labels give are those of alerts of our own."""
    said = {alert.labels[FINGERPRINT] for alert in alerts if FINGERPRINT in alert.labels}
    query = select(AlertRow.fingerprint).where(AlertRow.source == OURS, col(AlertRow.fingerprint).in_(said))
    return frozenset(session.exec(query)) if said else frozenset()


def _room(session: Session, now: datetime) -> Room:
    """What there is; the oldest of those that are over make room where too many are kept."""
    row = InboundAlertRow
    firing = session.exec(select(func.count()).select_from(row).where(row.status == FIRING)).one()
    new = session.exec(select(func.count()).select_from(row).where(row.taken_at > now - DAY)).one()
    kept = session.exec(select(func.count()).select_from(row)).one()
    over = select(row.id).where(row.status == RESOLVED).order_by(col(row.id)).limit(max(0, kept - MOST_KEPT))
    forget(session, [number for number in session.exec(over) if number is not None] if kept > MOST_KEPT else [])
    return Room(firing, new)


def forget(session: Session, numbers: Sequence[int]) -> None:
    """Those that are over, with the alerts that stood for them; the ledger keeps what it says of them."""
    if not numbers:
        return
    alerts = select(InboundAlertRow.alert_id).where(
        col(InboundAlertRow.id).in_(numbers), col(InboundAlertRow.alert_id).is_not(None)
    )
    session.execute(delete(AlertRow).where(col(AlertRow.id).in_(list(session.exec(alerts)))))
    session.execute(delete(InboundAlertRow).where(col(InboundAlertRow.id).in_(numbers)))
