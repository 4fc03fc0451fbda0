"""Exporters of several replicas over one PostgreSQL: each interval goes out once while all live, and in order."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from controlplane.db.database import Database
from controlplane.telemetry.forwarding.exporter import Exporter, Sent
from controlplane.telemetry.forwarding.meters import ExportMeters
from controlplane.telemetry.values.timespan import Span
from tests.made_tables import migrate

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
REPLICAS, MINUTES = 3, 20


class Receiver:
    """Shared by the senders of all replicas."""

    name = "test"
    interval_s = 60

    def __init__(self) -> None:
        self.taken: list[datetime] = []

    def send(self, interval: Span) -> Sent:
        self.taken.append(interval.start)
        return Sent(points=1)

    def close(self) -> None:
        pass


@pytest.fixture
def databases(postgres_schema_url: str) -> Iterator[list[Database]]:
    """One for each replica."""
    made = [Database(postgres_schema_url) for _ in range(REPLICAS)]
    migrate(made[0])
    yield made
    for database in made:
        database.close()


def test_each_interval_goes_out_once_and_in_order(databases: list[Database]) -> None:
    receiver = Receiver()
    exporters = [
        Exporter(receiver, database, ExportMeters(CollectorRegistry()), delay_s=0, longest_lag_s=3600)
        for database in databases
    ]
    for minute in range(MINUTES):
        together = threading.Barrier(REPLICAS)

        def tick(exporter: Exporter, at: datetime = START + MINUTE * minute, met: threading.Barrier = together) -> None:
            met.wait()
            exporter.tick(at)

        threads = [threading.Thread(target=tick, args=(exporter,)) for exporter in exporters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert receiver.taken == [START + MINUTE * minute for minute in range(MINUTES - 1)]
