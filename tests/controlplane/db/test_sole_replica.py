"""One of several replicas does a work for all; another follows when it is gone."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from controlplane.db.database import Database
from controlplane.db.sole_replica import SoleReplica

KEY, OTHER_KEY = 4711, 4712
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def replicas(postgres_schema_url: str) -> Iterator[tuple[Database, Database]]:
    made = Database(postgres_schema_url), Database(postgres_schema_url)
    yield made
    for one in made:
        one.close()


def test_one_of_two_is_chosen_and_stays_so(replicas: tuple[Database, Database]) -> None:
    first, second = (SoleReplica(one, KEY) for one in replicas)
    assert [first.chosen(), second.chosen(), second.chosen(), first.chosen()] == [True, False, False, True]


def test_another_work_is_another_choice(replicas: tuple[Database, Database]) -> None:
    assert SoleReplica(replicas[0], KEY).chosen()
    assert SoleReplica(replicas[1], OTHER_KEY).chosen()


def test_the_other_follows_when_the_first_closes(replicas: tuple[Database, Database]) -> None:
    first, second = (SoleReplica(one, KEY) for one in replicas)
    assert first.chosen()
    replicas[0].close()
    assert second.chosen()


def test_the_other_follows_when_the_connection_breaks(replicas: tuple[Database, Database]) -> None:
    first, second = (SoleReplica(one, KEY) for one in replicas)
    assert first.chosen()
    with replicas[1].engine.connect() as connection:
        ended = text("SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND objid = :k")
        assert connection.execute(ended, {"k": KEY}).scalars().all() == [True]
    assert second.chosen()
    assert not first.chosen()


def test_the_other_follows_when_the_work_fails(replicas: tuple[Database, Database]) -> None:
    first, second = (SoleReplica(one, KEY) for one in replicas)

    def fail(now: datetime) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        first.only(fail)(NOW)
    assert second.chosen()


def test_work_is_done_where_it_is_chosen_and_something_else_elsewhere(replicas: tuple[Database, Database]) -> None:
    done: list[str] = []
    for name, one in zip(("first", "second", "third"), (*replicas, replicas[1]), strict=True):
        act, otherwise = ((lambda _, what=what: done.append(what)) for what in (f"{name} acts", f"{name} follows"))
        SoleReplica(one, KEY).only(act, otherwise)(NOW)
        SoleReplica(one, OTHER_KEY).only(lambda _: None)(NOW)
    assert done == ["first acts", "second follows", "third follows"]


def test_sqlite_has_one_replica(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'd.db'}")
    assert SoleReplica(database, KEY).chosen() and SoleReplica(database, KEY).chosen()
    database.close()
