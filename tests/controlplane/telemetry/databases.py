"""A database of each kind, with the tables made as an upgrade makes them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.app.tables import all_tables
from controlplane.db.database import Database
from tests.made_tables import create_tables


@pytest.fixture(params=["sqlite", "postgresql"])
def any_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Runs the test on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        found = Database(f"sqlite:///{tmp_path / 'tailwright.db'}")
    else:
        found = Database(request.getfixturevalue("postgres_schema_url"))
    create_tables(found, all_tables())
    yield found
    found.close()
