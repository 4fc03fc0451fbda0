"""Replicas that tick at the same time over one PostgreSQL: each letter goes out once, and in its alert's order."""

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.alerts.notify.delivery import Deliverer
from controlplane.alerts.tables import DeliveryRow
from controlplane.db.database import Database
from controlplane.db.migrate import upgrade
from controlplane.outgoing import ANYWHERE
from tests.keyrings import add_destination, keyring_of

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
REPLICAS, ALERTS, ROUNDS = 3, 12, 6


@pytest.fixture
def databases(postgres_schema_url: str) -> Iterator[list[Database]]:
    """One for each replica."""
    made = [Database(postgres_schema_url) for _ in range(REPLICAS)]
    upgrade(made[0])
    yield made
    for database in made:
        database.close()


def test_each_letter_is_sent_once_and_in_order(databases: list[Database], receiver: Any) -> None:
    destinations = [add_destination(databases[0], receiver.url, NOW) for _ in range(3)]
    with databases[0].session() as session:
        for destination in destinations:
            for alert in range(ALERTS):
                for status in ("firing", "resolved"):
                    session.add(
                        DeliveryRow(
                            alert_id=alert,
                            destination_id=destination,
                            status=status,
                            state="waiting",
                            idempotency_key=f"{destination}:{alert}:{status}",
                            body="{}",
                            created_at=NOW,
                            next_attempt_at=NOW,
                        )
                    )
    deliverers = [
        Deliverer(database, keyring_of(database), clock=lambda: NOW, policy=ANYWHERE) for database in databases
    ]
    for round_ in range(ROUNDS):
        together = threading.Barrier(REPLICAS)

        def tick(
            deliverer: Deliverer, at: datetime = NOW + timedelta(seconds=round_), met: threading.Barrier = together
        ) -> None:
            met.wait()
            deliverer.tick(at)
            deliverer.settle()

        threads = [threading.Thread(target=tick, args=(deliverer,)) for deliverer in deliverers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    keys = [headers["Idempotency-Key"] for headers, _ in receiver.got]
    assert set(Counter(keys).values()) == {1} and len(keys) == 3 * ALERTS * 2
    for key in keys:
        if key.endswith("resolved"):
            assert keys.index(key.replace("resolved", "firing")) < keys.index(key)
    assert sum(deliverer.delivered for deliverer in deliverers) == len(keys)
