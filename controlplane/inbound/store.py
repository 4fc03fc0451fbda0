"""Alerts of other systems and marks in the database, inside the caller's transaction; the ledger tells of both."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlmodel import Session, select

from controlplane import ledger
from controlplane.contract.channels.inbound import EventCreate, InboundAlert, InboundTaken, PostedEvent
from controlplane.db.rows import newest
from controlplane.inbound.foreign_alerts import ForeignAlert
from controlplane.inbound.tables import EventRow, InboundAlertRow


def take_in(
    session: Session, source: str, alerts: Sequence[ForeignAlert], *, actor: str, now: datetime
) -> InboundTaken:
    """New ones are written and known ones brought up to date; told again as they are, nothing happens."""
    changed = sum(_take_one(session, source, one, actor, now) for one in alerts)
    return InboundTaken(taken=len(alerts), changed=changed)


def _take_one(session: Session, source: str, alert: ForeignAlert, actor: str, now: datetime) -> bool:
    """Whether it is new, or in another state than it was. "Resolved" is never undone by a late "firing" of it."""
    query = select(InboundAlertRow).where(
        InboundAlertRow.source == source,
        InboundAlertRow.fingerprint == alert.fingerprint,
        InboundAlertRow.starts_at == alert.starts_at,
    )
    row = session.exec(query.with_for_update()).first()
    if row is not None and (row.status == alert.status or row.status == "resolved"):
        return False
    if row is None:
        row = InboundAlertRow(source=source, **alert.columns, received_at=now, sent_by=str(actor))
    else:
        for name, value in alert.columns.items():
            setattr(row, name, value)
        row.received_at, row.sent_by = now, str(actor)
    session.add(row)
    session.flush()
    name = alert.labels.get("alertname", "an alert")
    message = f"{source} says that {name} {'fires' if alert.status == 'firing' else 'is over'}"
    told = {"labels": alert.labels, "link": alert.link, "fingerprint": alert.fingerprint}
    ledger.append(session, now, actor, f"inbound.{alert.status}", f"inbound-alert/{row.id}", message, **told)
    return True


def inbound_alerts(
    session: Session, *, before_id: int | None, limit: int, status: str | None = None
) -> list[InboundAlert]:
    """Newest first."""
    query = newest(InboundAlertRow, before_id, limit)
    if status is not None:
        query = query.where(InboundAlertRow.status == status)
    return [InboundAlert.model_validate(row.model_dump()) for row in session.exec(query)]


def post_event(session: Session, wanted: EventCreate, *, actor: str, now: datetime) -> PostedEvent:
    at = (wanted.time or now).astimezone(UTC)
    row = EventRow(**{**wanted.model_dump(), "time": at}, posted_by=str(actor), received_at=now)
    session.add(row)
    session.flush()
    message = f"{wanted.kind}: {wanted.subject}"
    said = {"event_kind": wanted.kind, "time": row.time.isoformat(), "labels": wanted.labels, "link": wanted.link}
    ledger.append(session, now, actor, "event.posted", f"event/{row.id}", message, **said)
    return PostedEvent.model_validate(row.model_dump())


def events(session: Session, *, before_id: int | None, limit: int) -> list[PostedEvent]:
    """Newest first, by when they came in."""
    return [PostedEvent.model_validate(row.model_dump()) for row in session.exec(newest(EventRow, before_id, limit))]
