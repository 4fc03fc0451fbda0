"""Who lives is told by connections: of others at once, and of oneself always."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from controlplane.db.database import Database
from controlplane.db.living_processes import LivingProcesses


@pytest.fixture
def replicas(postgres_schema_url: str) -> Iterator[tuple[Database, Database]]:
    made = Database(postgres_schema_url), Database(postgres_schema_url)
    yield made
    for one in made:
        one.close()


def lives(database: Database, asker: LivingProcesses, about: LivingProcesses) -> bool:
    with database.session() as session:
        found = asker.numbers(session)
    assert found is not None
    return about.number in found


def test_one_lives_from_when_it_enters_until_its_connections_end(replicas: tuple[Database, Database]) -> None:
    first, second = (LivingProcesses(one) for one in replicas)
    assert lives(replicas[0], first, first) and not lives(replicas[1], second, first)
    first.enter()
    first.enter()
    assert lives(replicas[1], second, first)
    replicas[0].close()
    assert not lives(replicas[1], second, first)


def test_one_whose_connection_broke_lives_again_when_it_enters_again(replicas: tuple[Database, Database]) -> None:
    first, second = (LivingProcesses(one) for one in replicas)
    first.enter()
    with replicas[1].engine.connect() as connection:
        ended = text("SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND objid = :n")
        assert connection.execute(ended, {"n": first.number}).scalars().all() == [True]
    assert not lives(replicas[1], second, first)
    first.enter()
    assert lives(replicas[1], second, first)


def test_one_whose_connection_broke_leaves_all_the_same(replicas: tuple[Database, Database]) -> None:
    first, second = (LivingProcesses(one) for one in replicas)
    first.enter()
    with replicas[1].engine.connect() as connection:
        ended = text("SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND objid = :n")
        connection.execute(ended, {"n": first.number})
    first.leave()
    assert not lives(replicas[1], second, first)
    first.enter()
    assert lives(replicas[1], second, first)


def test_on_sqlite_it_is_known_only_to_whoever_is_alone(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/t.db")
    with database.read_session() as session:
        assert LivingProcesses(database).numbers(session) is None
        alone = LivingProcesses(database, sole=True)
        alone.enter()
        assert alone.numbers(session) == {alone.number}
    database.close()
