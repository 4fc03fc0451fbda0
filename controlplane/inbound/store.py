"""Alerts of other systems and marks as they are kept, inside the caller's transaction."""

from datetime import UTC, datetime

from sqlmodel import Session

from controlplane import ledger
from controlplane.contract.channels.inbound import EVENT_POSTED, EventCreate, InboundAlert, PostedEvent
from controlplane.db.rows import newest
from controlplane.inbound.tables import EventRow, InboundAlertRow


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
    ledger.append(session, now, actor, EVENT_POSTED, f"event/{row.id}", message, **said)
    return PostedEvent.model_validate(row.model_dump())


def events(session: Session, *, before_id: int | None, limit: int) -> list[PostedEvent]:
    """Newest first, by when they came in."""
    return [PostedEvent.model_validate(row.model_dump()) for row in session.exec(newest(EventRow, before_id, limit))]
