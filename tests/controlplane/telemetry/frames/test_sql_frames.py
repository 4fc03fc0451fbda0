"""How SQLite goes about reading frames: what it costs must not grow with what is not asked for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from controlplane.db.database import Database
from controlplane.telemetry.frames.frame_store import Fold, Frame, FrameKey, ReadPoint
from controlplane.telemetry.frames.gather import FLEET
from controlplane.telemetry.frames.sql_frames import SqlFrames
from tests.made_tables import create_tables

METRICS, BLOCKS, WINDOWS = 20, 6, 10


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'tailwright.db'}")
    create_tables(database)
    yield database
    database.close()


@pytest.fixture
def frames(database: Database) -> SqlFrames:
    frames = SqlFrames(database)
    with database.snapshot() as connection:
        state = frames.state(connection).next()
    written = [
        Frame(FrameKey(10, metric, block, window), b"%d/%d/%d" % (metric, block, window))
        for metric in range(METRICS)
        for block in range(FLEET, BLOCKS)
        for window in range(WINDOWS)
    ]
    with database.session() as session:
        assert frames.commit(session, Fold(state, written))
    return frames


@pytest.mark.parametrize("blocks", [None, [FLEET], [2, 3]])
def test_a_metric_is_read_without_the_others(database: Database, frames: SqlFrames, blocks: list[int] | None) -> None:
    plans: list[str] = []

    def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not statement.startswith(("EXPLAIN", "BEGIN")):
            rows = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            plans.extend(row[-1] for row in rows if "telemetry_frame" in row[-1] or "B-TREE" in row[-1])

    with database.snapshot() as connection:
        moment = ReadPoint(connection, frames.state(connection))
        event.listen(database.engine, "before_cursor_execute", explain)
        found = list(frames.read(moment, 10, 7, blocks, 2, 5))
        event.remove(database.engine, "before_cursor_execute", explain)
    wanted = range(FLEET, BLOCKS) if blocks is None else blocks
    assert [key for key, _ in found] == [FrameKey(10, 7, block, window) for block in wanted for window in range(2, 5)]
    assert all(data == b"%d/%d/%d" % key[1:] for key, data in found)
    assert plans and all("metric=?" in plan for plan in plans), plans


def test_others_write_between_the_windows_that_are_dropped(database: Database, frames: SqlFrames) -> None:
    left: list[int] = []

    def meanwhile(seconds: float) -> None:
        assert seconds > 0
        with database.session() as session:  # It takes the write lock.
            left.append(session.execute(text("SELECT count(DISTINCT window) FROM telemetry_frame")).scalar_one())

    assert SqlFrames(database, meanwhile).drop(10, 4) == 4 * METRICS * (BLOCKS + 1)
    assert left == [9, 8, 7, 6]
