"""A pool of simulated nodes and a study in production over it, with real rollouts and their judge."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import controlplane.app.tables  # noqa: F401
from controlplane.db.database import Database
from tests.controlplane.app.online.online_world import OnlineWorld
from tests.made_tables import create_tables


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """SQLite, or what an indirect parameter says: "postgresql" gives a schema of its own where there is a server."""
    here = getattr(request, "param", "sqlite") == "sqlite"
    made = Database(f"sqlite:///{tmp_path / 'online.db'}" if here else request.getfixturevalue("postgres_schema_url"))
    create_tables(made)
    yield made
    made.close()


@pytest.fixture
def world(database: Database) -> OnlineWorld:
    return OnlineWorld(database)
