"""Transactions, columns and paging."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DataError, OperationalError, StatementError
from sqlmodel import Session

from controlplane.contract.bodies.access import Scope, TokenView
from controlplane.db import database as database_module
from controlplane.db.database import Database
from controlplane.db.migrate import upgrade
from controlplane.db.paging import page_of
from controlplane.db.probe import ProbeRow, prove_write
from tests.processes import wait_for

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'd.db'}")
    upgrade(made)
    yield made
    made.close()


def count(database: Database) -> int:
    with database.read_session() as session:
        return int(session.connection().execute(text("SELECT count(*) FROM probe")).scalar_one())


def test_a_block_is_one_transaction(database: Database) -> None:
    with database.session() as session:
        session.add(ProbeRow(id=1, time=NOW))
    assert count(database) == 1
    with pytest.raises(RuntimeError), database.session() as session:
        session.add(ProbeRow(id=2, time=NOW))
        session.flush()
        raise RuntimeError
    assert count(database) == 1


@pytest.mark.parametrize("value", [2**63, "\ud800"])
def test_values_that_the_driver_cannot_hand_over_are_data_errors(database: Database, value: object) -> None:
    with pytest.raises(DataError), database.read_session() as session:
        session.connection().execute(text("SELECT count(*) FROM probe WHERE id = :value"), {"value": value})


def test_sqlite_is_durable_and_waits_for_its_turn(database: Database) -> None:
    with database.read_session() as session:
        connection = session.connection()
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar_one() == 2
        assert connection.execute(text("PRAGMA foreign_keys")).scalar_one() == 1
        assert connection.execute(text("PRAGMA busy_timeout")).scalar_one() >= 1000


def test_whoever_waits_to_write_does_so_before_who_writes_again(database: Database) -> None:
    order: list[str] = []

    def write(number: int, name: str) -> None:
        with database.session() as session:
            session.add(ProbeRow(id=number, time=NOW))
            session.flush()
            order.append(name)

    others = [threading.Thread(target=write, args=(2 + place, f"waits {place}")) for place in range(3)]
    with database.session() as session:
        session.add(ProbeRow(id=1, time=NOW))
        session.flush()
        for place, other in enumerate(others, 1):
            other.start()
            wait_for("it waits", lambda: database.turns is not None and database.turns.waiting == place)  # noqa: B023
    write(9, "writes again")
    for other in others:
        other.join(60)
    assert order == ["waits 0", "waits 1", "waits 2", "writes again"]


def test_a_turn_in_vain_is_given_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process holds the file: whoever has had the turn and could not write leaves it to the next."""
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT_MS", 50)
    with closing(Database(f"sqlite:///{tmp_path / 'd.db'}")) as database:
        upgrade(database)
        with closing(sqlite3.connect(tmp_path / "d.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for _ in range(3):
                with pytest.raises(OperationalError, match="database is locked"), database.session() as session:
                    session.connection()
            other.execute("ROLLBACK")
        with database.session() as session, pytest.raises(OperationalError, match="database is locked"):
            session.connection()
            with database.session() as beside:
                beside.connection()
        prove_write(database, NOW)


def test_readers_do_not_wait_for_a_writer_and_see_one_state(database: Database) -> None:
    with database.session() as writing:
        writing.add(ProbeRow(id=1, time=NOW))
        writing.flush()
        assert count(database) == 0
    assert count(database) == 1


def test_times_come_back_in_utc(database: Database) -> None:
    east = timezone(timedelta(hours=2))
    with database.session() as session:
        session.add(ProbeRow(id=1, time=NOW.astimezone(east)))
    with Session(database.engine) as session:
        found = session.get_one(ProbeRow, 1).time
    assert found == NOW
    assert found.utcoffset() == timedelta(0)


def test_a_naive_time_is_refused(database: Database) -> None:
    with pytest.raises(StatementError, match="without a timezone"), database.session() as session:
        session.add(ProbeRow(id=1, time=datetime(2026, 1, 1)))


def test_the_probe_writes_one_row(database: Database) -> None:
    prove_write(database, NOW)
    prove_write(database, NOW + timedelta(seconds=1))
    assert count(database) == 1


@pytest.mark.parametrize(("found", "shown", "cursor"), [(0, 0, None), (2, 2, None), (3, 2, "2")])
def test_a_page_knows_whether_there_is_another(found: int, shown: int, cursor: str | None) -> None:
    items = [TokenView(id=number + 1, name="t", scope=Scope.READ, created_at=NOW) for number in range(found)]
    page = page_of(items, limit=2)
    assert (len(page.items), page.next) == (shown, cursor)
