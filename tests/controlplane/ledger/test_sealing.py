"""Appending: in the order of commits, without a gap, whoever else appends; what is rolled back never was."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controlplane import ledger
from controlplane.db.database import Database
from controlplane.ledger.inspection import newest, verify
from tests.made_tables import migrate

NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return str(request.getfixturevalue("postgres_schema_url"))


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    made = Database(url)
    migrate(made)
    yield made
    made.close()


def messages(database: Database) -> list[str]:
    with database.read_session() as session:
        found = ledger.entries(session, before_id=None, limit=1_000)
    assert [entry.id for entry in found] == list(range(len(found), 0, -1))
    return [entry.message for entry in reversed(found)]


def test_what_was_written_is_what_is_read_and_chained(database: Database) -> None:
    with database.session() as session:
        evidence = {"b": 0.1 + 0.2, "a": [1, None, {"é": "ü"}], "n": {1: 2}}
        ledger.append(session, NOW, ledger.Actor("ops", 7), "a.b", "a/1", "one", **evidence)
        ledger.append(session, NOW, ledger.SERVICE, "a.b", "a/1", "two")
    head, wrong = verify(database)
    assert (head.id, wrong) == (2, None) and newest(database) == head
    with database.read_session() as session:
        two, one = ledger.entries(session, before_id=None, limit=9)
    assert (one.time, one.actor, two.actor) == (NOW, "ops", "tailwright")
    assert one.evidence == {"b": 0.1 + 0.2, "a": [1, None, {"é": "ü"}], "n": {"1": 2}, "token_id": 7}
    assert two.evidence == {}


def test_what_is_rolled_back_was_never_appended(database: Database) -> None:
    def add(message: str) -> None:
        ledger.append(session, NOW, "me", "a.b", "a/1", message)

    with pytest.raises(ZeroDivisionError), database.session() as session:
        add("lost")
        raise ZeroDivisionError
    with database.session() as session:
        add("first")
        with pytest.raises(ZeroDivisionError), session.begin_nested():
            add("lost in a savepoint")
            raise ZeroDivisionError
        with session.begin_nested():
            add("second")
        with pytest.raises(ZeroDivisionError), session.begin_nested():
            with session.begin_nested():
                add("lost with the savepoint around its own")
            raise ZeroDivisionError
        add("third")
    assert messages(database) == ["first", "second", "third"]
    assert verify(database)[1] is None


def test_two_replicas_cannot_fork_the_chain(database: Database, url: str) -> None:
    each = 40

    def write(name: str) -> None:
        replica = Database(url)
        for number in range(each):
            with replica.session() as session:
                ledger.append(session, NOW, name, "a.b", "a/1", f"{name} {number}")
                ledger.append(session, NOW, name, "a.b", "a/1", f"{name} {number} more")
        replica.close()

    with ThreadPoolExecutor(3) as replicas:
        list(replicas.map(write, "abc"))
    said = messages(database)
    assert len(said) == 3 * 2 * each
    assert all(second == f"{first} more" for first, second in zip(said[::2], said[1::2], strict=True))
    for name in "abc":
        assert [text for text in said[::2] if text.startswith(name)] == [f"{name} {n}" for n in range(each)]
    head, wrong = verify(database)
    assert (head.id, wrong) == (len(said), None)
