"""What has to be told to whom: rows written in the transaction that changes the alert (a transactional outbox).

Guarantee: an alert that is in the database as fired has its deliveries there too. "Resolved" goes to exactly the
destinations that were told of "firing", also during a silence: it closes what was opened and wakes nobody.
"""

from datetime import datetime

from sqlmodel import Session, col, select

from controlplane.alerts.notify import payload
from controlplane.alerts.tables import DeliveryRow, DestinationRow
from controlplane.contract.bodies.alerts import Alert, AlertState, DeliveryState


def enqueue_firing(session: Session, alert: Alert, now: datetime, external_url: str, key: str | None = None) -> int:
    """One delivery for each enabled destination; returns how many. key: if it is not the first."""
    rows = session.exec(
        select(DestinationRow).where(col(DestinationRow.enabled).is_(True)).order_by(col(DestinationRow.id))
    )
    return _enqueue(session, alert, AlertState.FIRING.value, list(rows), now, external_url, key)


def is_told(session: Session, alert: Alert) -> bool:
    """Whether there is a delivery of this alert already."""
    return session.exec(select(DeliveryRow.id).where(DeliveryRow.alert_id == alert.id).limit(1)).first() is not None


def enqueue_resolved(session: Session, alert: Alert, now: datetime, external_url: str) -> int:
    """To each destination that was told of the alert, once."""
    told = select(DeliveryRow.destination_id).where(DeliveryRow.alert_id == alert.id)
    rows = session.exec(select(DestinationRow).where(col(DestinationRow.id).in_(told)).order_by(col(DestinationRow.id)))
    return _enqueue(session, alert, AlertState.RESOLVED.value, list(rows), now, external_url)


def _enqueue(
    session: Session,
    alert: Alert,
    status: str,
    destinations: list[DestinationRow],
    now: datetime,
    external_url: str,
    key: str | None = None,
) -> int:
    for destination in destinations:
        assert destination.id is not None
        row = DeliveryRow(
            alert_id=alert.id,
            destination_id=destination.id,
            status=status,
            state=DeliveryState.WAITING.value,
            idempotency_key=key or payload.idempotency_key(alert, status),
            body=payload.body(alert, status, destination.name, external_url),
            created_at=now,
            next_attempt_at=now,
        )
        session.add(row)
    return len(destinations)
