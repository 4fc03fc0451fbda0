"""A database with the service's tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.db.database import Database
from tests.made_tables import migrate


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'auth.db'}")
    migrate(made)
    yield made
    made.close()
