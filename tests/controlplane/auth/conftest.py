"""A database with the service's tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.db.database import Database
from controlplane.db.migrate import upgrade


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'auth.db'}")
    upgrade(made)
    yield made
    made.close()
