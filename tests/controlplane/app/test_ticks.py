"""Of several replicas one folds and evaluates; the others keep count of what waits for it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast
from unittest.mock import Mock

import pytest

from controlplane.app.background import Tick
from controlplane.app.ticks import ticks_of
from controlplane.db.database import Database

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SHARED = ("telemetry_compaction", "alert_evaluation")


class Replica:
    """Says what its telemetry was asked to do."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.did: list[str] = []
        made = ticks_of(self.database, cast(Any, self), Mock(), Mock(), "")
        self.ticks = {tick.name: tick for tick in made}

    def tick(self, now: datetime) -> None:
        self.did.append("folds")

    def follow(self, now: datetime) -> None:
        self.did.append("follows")

    def latest(self) -> None:
        self.did.append("evaluates")
        raise LookupError("enough seen")

    def run(self) -> list[str]:
        """What it does in one round of both."""
        self.did.clear()
        for name in SHARED:
            Tick.run(self.ticks[name], NOW)
        return list(self.did)


@pytest.fixture
def replicas(postgres_schema_url: str) -> Iterator[list[Replica]]:
    made = [Replica(postgres_schema_url) for _ in range(2)]
    yield made
    for one in made:
        one.database.close()


def test_one_replica_folds_and_evaluates_and_the_other_follows(replicas: list[Replica]) -> None:
    first, second = replicas
    first.ticks["telemetry_compaction"].run(NOW)
    assert second.run() == ["follows"]
    assert first.run() == ["folds", "evaluates"]


def test_the_other_takes_over_when_the_work_fails(replicas: list[Replica]) -> None:
    first, second = replicas
    first.run()  # Its evaluation has failed.
    assert second.run() == ["folds", "evaluates"]
    assert first.run() == ["folds", "evaluates"]
