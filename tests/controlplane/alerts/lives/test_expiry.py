"""Alerts that have been over for long go, with their deliveries; none that anybody waits for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlmodel import select

from controlplane.alerts.lives import expiry
from controlplane.alerts.lives.expiry import Expiry
from controlplane.alerts.tables import AlertRow, DeliveryRow
from controlplane.db import Database

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
OLD, YOUNG = NOW - timedelta(days=91), NOW - timedelta(days=89)


def add(database: Database, state: str, ended: datetime | None, *deliveries: str) -> int:
    said: dict[str, Any] = {"fingerprint": "f", "rule_id": 1, "rule": "r", "kind": "k", "pool": "p", "severity": "page"}
    with database.session() as session:
        alert = AlertRow(
            **said, state=state, labels={}, summary="s", started_at=OLD, breach_since=OLD, resolved_at=ended
        )
        session.add(alert)
        session.flush()
        assert alert.id is not None
        for number, delivery in enumerate(deliveries):
            session.add(
                DeliveryRow(
                    alert_id=alert.id,
                    destination_id=1,
                    status="resolved",
                    state=delivery,
                    idempotency_key=f"{alert.id}-{number}",
                    body="{}",
                    created_at=OLD,
                )
            )
        return alert.id


def left(database: Database) -> tuple[list[int | None], int]:
    with database.read_session() as session:
        alerts = session.exec(select(AlertRow.id).order_by("id")).all()
        return list(alerts), len(session.exec(select(DeliveryRow.id)).all())


def test_what_is_over_for_long_goes_and_is_counted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "BATCH", 2)
    for _ in range(5):
        add(database, "resolved", OLD, "delivered", "given_up")
    kept = [
        add(database, "resolved", YOUNG, "delivered"),
        add(database, "resolved", OLD, "delivered", "waiting"),
        add(database, "firing", None, "delivered"),
        add(database, "pending", None),
    ]
    registry = CollectorRegistry()
    tick = Expiry(database, timedelta(days=90), registry).tick
    tick(NOW)
    assert left(database) == (kept, 4)
    tick(NOW)
    counts = {
        what: registry.get_sample_value("tailwright_alert_history_removed_total", {"what": what})
        for what in ("alert", "delivery")
    }
    assert counts == {"alert": 5, "delivery": 10}
    tick(NOW + timedelta(days=2))
    assert left(database) == (kept[1:], 3)
