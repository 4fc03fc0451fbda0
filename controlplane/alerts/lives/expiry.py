"""Retention of alerts: one that has been over for long is removed, with its deliveries; so are old notices.

Guarantee: an alert that is open, or of which somebody is still to be told, is kept however old it is. What is removed
is counted; the ledger keeps what it says of it.
"""

from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, Counter
from sqlalchemy import delete, exists, select
from sqlmodel import Session, col

from controlplane.alerts.tables import AlertRow, DeliveryRow
from controlplane.contract.bodies.alerts import AlertState
from controlplane.contract.channels.destinations import DeliveryState
from controlplane.db.database import Database

PERIOD_S = 600.0
BATCH = 500
"""Alerts in one transaction: nobody waits long for it."""


class Expiry:
    """Removes what ended more than `kept` ago."""

    def __init__(self, database: Database, kept: timedelta, registry: CollectorRegistry) -> None:
        self._database = database
        self._kept = kept
        said = "Alerts and deliveries that were removed because they were over for longer than alert_history_days."
        self._removed = Counter("tailwright_alert_history_removed", said, ["what"], registry=registry)
        for what in ("alert", "delivery"):
            self._removed.labels(what)

    def tick(self, now: datetime) -> None:
        """Remove all that is due, a batch a transaction."""
        while True:
            with self._database.session() as session:
                alerts, deliveries = _remove(session, now - self._kept)
            self._removed.labels("alert").inc(alerts)
            self._removed.labels("delivery").inc(deliveries)
            if alerts < BATCH:
                return


def _remove(session: Session, before: datetime) -> tuple[int, int]:
    """The oldest alerts that ended before then, with their deliveries; how many of each."""
    waiting = exists().where(
        col(DeliveryRow.alert_id) == AlertRow.id, col(DeliveryRow.state) == DeliveryState.WAITING.value
    )
    over = select(col(AlertRow.id)).where(
        col(AlertRow.state) == AlertState.RESOLVED.value, col(AlertRow.resolved_at) < before, ~waiting
    )
    numbers = list(session.execute(over.order_by(col(AlertRow.id)).limit(BATCH)).scalars())
    of_notices = (
        (col(DeliveryRow.alert_id) == 0)
        & (col(DeliveryRow.state) != DeliveryState.WAITING.value)
        & (col(DeliveryRow.created_at) < before)
    )
    deliveries = session.execute(delete(DeliveryRow).where(col(DeliveryRow.alert_id).in_(numbers) | of_notices))
    alerts = session.execute(delete(AlertRow).where(col(AlertRow.id).in_(numbers)))
    return alerts.rowcount, deliveries.rowcount  # type: ignore[attr-defined]
