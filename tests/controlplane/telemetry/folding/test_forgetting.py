"""What is too old goes, in transactions of a bounded size, and nothing else does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Table, event, func, insert, select
from sqlmodel import SQLModel

from controlplane.db.database import Database
from controlplane.telemetry.folding.forgetting import Sweep, drop_older

STREAMS: Table = SQLModel.metadata.tables["telemetry_stream"]
SEEN: Table = SQLModel.metadata.tables["telemetry_seen"]


def add_streams(database: Database, *heard: int) -> None:
    rows = [{"stream": b"%04d" % i, "high": 1, "digests": b"", "heard_ns": time} for i, time in enumerate(heard)]
    with database.session() as session:
        session.execute(insert(STREAMS), rows)


def heard(database: Database) -> list[int]:
    with database.read_session() as session:
        return list(session.connection().execute(select(STREAMS.c.heard_ns).order_by(STREAMS.c.stream)).scalars())


@contextmanager
def commits(database: Database) -> Iterator[list[int]]:
    """Rows that each transaction has removed."""
    removed: list[int] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("DELETE"):
            removed.append(cursor.rowcount)

    event.listen(database.engine, "after_cursor_execute", note)
    yield removed
    event.remove(database.engine, "after_cursor_execute", note)


def test_a_sweep_goes_round_a_piece_at_a_time(any_database: Database) -> None:
    add_streams(any_database, *(1 if i % 3 else 9 for i in range(25)))
    sweep = Sweep(STREAMS, "heard_ns", rows=10, at_once=4)
    with commits(any_database) as removed:
        assert [sweep.step(any_database, 5) for _ in range(3)] == [6, 7, 3]
    assert removed == [4, 2, 4, 3, 3]
    assert heard(any_database) == [9] * 9
    with any_database.session() as session:
        session.execute(STREAMS.update().values(heard_ns=1))
    assert sweep.step(any_database, 5) == 9, "it begins anew, and what has aged since goes"


def test_a_sender_that_is_heard_of_meanwhile_stays(any_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    add_streams(any_database, 1, 1)
    real = any_database.session

    @contextmanager
    def after_a_report() -> Iterator[Any]:
        with real() as session:
            session.execute(STREAMS.update().where(STREAMS.c.stream == b"0000").values(heard_ns=9))
            yield session

    monkeypatch.setattr(any_database, "session", after_a_report)
    assert Sweep(STREAMS, "heard_ns").step(any_database, 5) == 1
    assert heard(any_database) == [9]


def test_the_oldest_go_first_and_those_of_one_time_together(any_database: Database) -> None:
    rows = [
        {"end_ns": time, "resource": i, "start_ns": 0, "hashes": b""} for time in (1, 2, 2, 2, 3, 8) for i in range(3)
    ]
    rows = [{**row, "resource": i} for i, row in enumerate(rows)]
    with any_database.session() as session:
        session.execute(insert(SEEN), rows)
    with commits(any_database) as removed:
        assert drop_older(any_database, SEEN, "end_ns", 8, at_once=4) == 15
    assert removed == [12, 3]
    assert drop_older(any_database, SEEN, "end_ns", 8) == 0
    with any_database.read_session() as session:
        assert session.connection().execute(select(func.min(SEEN.c.end_ns), func.count())).one() == (8, 3)
