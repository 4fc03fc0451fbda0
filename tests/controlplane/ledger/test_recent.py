"""A reader that remembers finds what one that reads anew finds, whatever came in between, and reads each entry once."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from controlplane import ledger
from controlplane.db.database import Database
from tests.made_tables import migrate

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/t.db")
    migrate(made)
    yield made
    made.close()


def append(database: Database, at: datetime, kind: str) -> None:
    with database.session() as session:
        ledger.append(session, at, ledger.SERVICE, kind, "node/a", "x")


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_what_the_ledger_has(database: Database, seed: int) -> None:
    chance, recent, now = random.Random(seed), ledger.Recent("node.x", lambda entry: entry), NOW
    for _ in range(40):
        now += timedelta(seconds=chance.choice([0, 1, 30, -5]))
        for _ in range(chance.randrange(3)):
            append(database, now, chance.choice(["node.x", "node.xy", "node.x.y", "rollout.x"]))
        start = now - timedelta(seconds=chance.choice([10, 60, 60, 60, 600]))
        with database.read_session() as session:
            found = [one for one in ledger.since(session, "node.x", start) if one.kind == "node.x"]
            assert recent.since(session, start) == found


def test_what_is_known_is_not_read_again(database: Database) -> None:
    recent, rows = ledger.Recent("node.x", lambda entry: entry), []
    for second in range(3):
        append(database, NOW + timedelta(seconds=second), "node.x")
    event.listen(database.engine, "before_cursor_execute", lambda *given: rows.append(given[3]))
    with database.read_session() as session:
        assert [one.id for one in recent.since(session, NOW)] == [1, 2, 3]
        assert [one.id for one in recent.since(session, NOW + timedelta(seconds=1))] == [2, 3]
    assert any(3 in parameters for parameters in rows), "only what is above the last that was seen"
