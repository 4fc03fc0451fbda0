"""A pool of two nodes with three revisions, on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import Session

import controlplane.app.tables  # noqa: F401
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from tests.controlplane.app.remedies.world import GOOD, NOW, World
from tests.made_tables import create_tables


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    here = request.param == "sqlite"
    made = Database(f"sqlite:///{tmp_path / 'remedy.db'}" if here else request.getfixturevalue("postgres_schema_url"))
    create_tables(made)
    yield made
    made.close()


@pytest.fixture
def world(database: Database) -> Iterator[World]:
    with Session(database.engine) as session:
        for node in ("a", "b"):
            row = fleet.place(session, node, pool="p", role="serving", backend="embedded", now=NOW)
            row.connected = row.healthy = True
        for budget in (512, 4, 64):
            fleet.create_revision(session, RevisionCreate(knobs={"max_num_batched_tokens": budget}), "me", NOW)
        fleet.set_pool_revision(session, "p", GOOD, NOW)
        yield World(session)
