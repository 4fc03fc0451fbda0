"""Two of a pair of Alertmanagers tell the same at once, to two replicas over one PostgreSQL: it is one alert."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from sqlmodel import select

from controlplane.alerts.tables import AlertRow
from controlplane.db.database import Database
from controlplane.inbound.foreign_alerts import ForeignAlert
from controlplane.inbound.tables import InboundAlertRow
from controlplane.inbound.taking_in import take_in
from tests.made_tables import migrate

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
REPLICAS, ALERTS = 3, 20


@pytest.fixture
def databases(postgres_schema_url: str) -> Iterator[list[Database]]:
    made = [Database(postgres_schema_url) for _ in range(REPLICAS)]
    migrate(made[0])
    yield made
    for database in made:
        database.close()


def test_each_alert_is_one_and_ends_once(databases: list[Database]) -> None:
    changed: Counter[str] = Counter()

    def tell(database: Database, status: str, place: int) -> None:
        ends_at = NOW if status == "resolved" else None
        told = [
            ForeignAlert(str(number), status, {"alertname": "Down"}, {}, "", NOW, ends_at) for number in range(ALERTS)
        ]
        together.wait()
        with database.session() as session:  # One tells them in another order.
            answer, _ = take_in(session, "alertmanager", told[:: -1 if place else 1], actor="am", now=NOW)
        changed[status] += answer.changed

    for status in ("firing", "resolved"):
        together = threading.Barrier(REPLICAS)
        with ThreadPoolExecutor(REPLICAS) as threads:
            for done in [threads.submit(tell, one, status, place) for place, one in enumerate(databases)]:
                done.result()
    assert changed == {"firing": ALERTS, "resolved": ALERTS}
    with databases[0].session() as session:
        for table, ended in ((AlertRow, AlertRow.resolved_at), (InboundAlertRow, InboundAlertRow.ends_at)):
            assert session.exec(select(ended).select_from(table)).all() == [NOW] * ALERTS
