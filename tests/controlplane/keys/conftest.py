"""An empty database of either kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.db.database import Database
from tests.made_tables import migrate


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    sqlite = request.param == "sqlite"
    made = Database(f"sqlite:///{tmp_path / 'k.db'}" if sqlite else request.getfixturevalue("postgres_schema_url"))
    migrate(made)
    yield made
    made.close()
