"""The durable position: one replica at a time moves it, on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest
from sqlmodel import SQLModel

from controlplane.db.database import Database
from controlplane.telemetry.forwarding.position import LEASE_S, Position, Positions
from controlplane.telemetry.values.export_tables import ExportRow

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
REPLICAS = 4


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'export.db'}" if sqlite else request.getfixturevalue("postgres_schema_url")
    found = Database(url)
    SQLModel.metadata.create_all(found.engine, tables=[SQLModel.metadata.tables[ExportRow.__tablename__]])
    yield found
    found.close()


def test_a_position_is_read_back_as_it_was_set(database: Database) -> None:
    positions = Positions(database, "otlp")
    seen = positions.read(NOON)
    assert seen == Position(NOON, 0, None) == positions.read(NOON + timedelta(hours=1))
    held = positions.lease(seen, NOON)
    assert held == Position(NOON, 1, NOON + timedelta(seconds=LEASE_S)) == positions.read(NOON)
    later = NOON + timedelta(microseconds=123_456)
    positions.rest(held, later)
    assert positions.read(NOON) == Position(NOON, 1, later)
    assert positions.advance(positions.read(NOON), later)
    assert positions.read(NOON) == Position(later, 0, None)
    assert Positions(database, "remote_write").read(NOON).at == NOON, "each exporter has its own"


def test_who_is_behind_moves_nothing(database: Database) -> None:
    positions = Positions(database, "otlp")
    seen = positions.read(NOON)
    held = positions.lease(seen, NOON)
    assert held is not None and positions.lease(seen, NOON) is None
    assert not positions.advance(seen, NOON + timedelta(hours=1))
    assert positions.advance(held, NOON + timedelta(minutes=1))
    positions.rest(held, NOON)
    assert positions.read(NOON) == Position(NOON + timedelta(minutes=1), 0, None)


def test_of_replicas_at_once_one_begins_and_one_leases(database: Database) -> None:
    together = Barrier(REPLICAS)

    def run(number: int) -> tuple[datetime, bool]:
        positions = Positions(database, "otlp")
        together.wait()
        seen = positions.read(NOON + timedelta(minutes=number))
        together.wait()
        return seen.at, positions.lease(seen, NOON) is not None

    with ThreadPoolExecutor(REPLICAS) as replicas:
        found = list(replicas.map(run, range(REPLICAS)))
    assert len({at for at, _ in found}) == 1
    assert sum(leased for _, leased in found) == 1
