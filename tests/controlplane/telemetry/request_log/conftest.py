"""A store on every database."""

from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from controlplane.db.database import Database
from controlplane.telemetry.store import TelemetryStore


@pytest.fixture
def any_store(any_database: Database, clock: Callable[[], datetime]) -> Iterator[TelemetryStore]:
    found = TelemetryStore(any_database, clock)
    found.start()
    yield found
    found.close()
