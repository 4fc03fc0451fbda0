"""What every place to keep frames promises: on SQLite, on PostgreSQL, and in ClickHouse's engine."""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection

from controlplane.db.database import Database
from controlplane.telemetry.frames.clickhouse_frames import ClickHouseFrames
from controlplane.telemetry.frames.frame_store import Fold, Frame, FrameKey, FrameStore, ReadPoint
from controlplane.telemetry.frames.sql_frames import SqlFrames
from controlplane.telemetry.values.levels import FoldState, Level
from tests.made_tables import create_tables

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgresql", "clickhouse"])
def frames(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FrameStore]:
    url = f"sqlite:///{tmp_path / 'tailwright.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_schema_url")
    database = Database(url)
    create_tables(database)
    if request.param == "clickhouse":
        yield ClickHouseFrames(database, request.getfixturevalue("empty_clickhouse"))
    else:
        yield SqlFrames(database)
    database.close()


def key(window: int, resolution: int = 5, metric: int = 1, block: int = 0) -> FrameKey:
    return FrameKey(resolution, metric, block, window)


class TestFrameStore:
    @pytest.fixture(autouse=True)
    def _given(self, frames: SqlFrames) -> None:
        self.frames, self.database = frames, frames._database

    def moment(self, connection: Connection) -> ReadPoint:
        return ReadPoint(connection, self.frames.state(connection))

    def fold(self, *written: Frame, levels: Collection[Level] = ()) -> bool:
        with self.database.snapshot() as connection:
            state = self.frames.state(connection).next(*levels)
        return self.write(Fold(state, written))

    def write(self, fold: Fold) -> bool:
        self.frames.prepare(fold)
        with self.database.session() as session:
            done = self.frames.commit(session, fold)
            if not done:
                session.rollback()
        return done

    def read(
        self, metric: int = 1, blocks: Collection[int] | None = None, first: int = 0, last: int = 100
    ) -> list[Frame]:
        with self.database.snapshot() as connection:
            return list(self.frames.read(self.moment(connection), 5, metric, blocks, first, last))

    def test_the_first_state_is_empty(self) -> None:
        with self.database.snapshot() as connection:
            assert self.frames.state(connection) == FoldState.first()
            assert self.frames.newest(self.moment(connection), 5, 100) is None
            assert self.frames.oldest(self.moment(connection), 5) is None
        assert self.read() == []

    def test_what_is_committed_is_read_by_block_and_window(self) -> None:
        written = [
            Frame(key(7, block=1), b"c"),
            Frame(key(9), b"b"),
            Frame(key(7), b"a"),
            Frame(key(7, block=-1), b"f"),
        ]
        assert self.fold(*written, Frame(key(7, metric=2), b"x"), Frame(key(7, resolution=10), b"y"))
        assert [data for _, data in self.read()] == [b"f", b"a", b"b", b"c"]
        assert [data for _, data in self.read(blocks=[0])] == [b"a", b"b"]
        assert [data for _, data in self.read(blocks=[-1, 1])] == [b"f", b"c"]
        assert [data for _, data in self.read(first=8)] == [b"b"] and self.read(last=7) == []
        with self.database.snapshot() as connection:
            moment = self.moment(connection)
            nodes_only = self.frames.read(moment, 5, 1, None, 0, 100, fleet=False)
            assert [data for _, data in nodes_only] == [b"a", b"b", b"c"]
            assert self.frames.metrics(moment, 5, 7, 8) == [1, 2] and 1 in self.frames.metrics(moment, 5, 8, 10)
            assert self.frames.metrics(moment, 10, 0, 100) == [1] and self.frames.metrics(moment, 60, 0, 100) == []
            assert (self.frames.newest(moment, 5, 100), self.frames.newest(moment, 5, 8)) == (9, 7)
            assert self.frames.oldest(moment, 5) == 7 and self.frames.oldest(moment, 60) is None
            assert self.frames.find(moment, {key(7), key(8), key(9, block=3)}) == {key(7): b"a"}

    def test_a_later_fold_replaces(self) -> None:
        assert self.fold(Frame(key(7), b"a"), Frame(key(8), b"b"))
        assert self.fold(Frame(key(7), b"a2"), levels=[Level(10, 0, 4)])
        assert [data for _, data in self.read()] == [b"a2", b"b"]
        with self.database.snapshot() as connection:
            state = self.frames.state(connection)
        assert state.number == 2 and state.levels[10] == Level(10, 0, 4) and state.levels[60] == Level(60)

    def test_of_two_folds_of_one_number_one_commits(self) -> None:
        assert self.fold(Frame(key(7), b"a"))
        state = FoldState(1, FoldState.first().levels).next()
        mine = Fold(state, [Frame(key(8), b"b")])
        assert self.write(mine)
        late = Fold(state, [Frame(key(8), b"other")])
        with self.database.session() as session:
            assert not self.frames.commit(session, late)
            session.rollback()
        assert [data for _, data in self.read()] == [b"a", b"b"]

    def test_a_fold_that_failed_may_be_tried_again_with_other_content(self) -> None:
        state = FoldState.first().next()
        failed = Fold(state, [Frame(key(7), b"a"), Frame(key(8), b"b")])
        self.frames.prepare(failed)
        with self.database.session() as session:
            assert self.frames.commit(session, failed)
            session.rollback()
        assert self.read() == []
        assert self.write(Fold(state, [Frame(key(7), b"z")]))
        assert self.read() == [Frame(key(7), b"z")]

    def test_a_reader_sees_the_fold_of_its_moment(self) -> None:
        assert self.fold(Frame(key(7), b"a"))
        with self.database.snapshot() as connection:
            moment = self.moment(connection)
            assert self.fold(Frame(key(7), b"a2"), Frame(key(8), b"b"))
            assert list(self.frames.read(moment, 5, 1, None, 0, 100)) == [Frame(key(7), b"a")]
        assert len(self.read()) == 2

    def test_dropping(self) -> None:
        self.frames.make_room(NOW)
        present = int(NOW.timestamp()) // 5
        windows = [present - 10_000, present - 1, present, present + 1]
        assert self.fold(*(Frame(key(window), b"a") for window in windows), Frame(key(3, resolution=10), b"b"))
        assert self.frames.drop(5, present) >= 1
        assert [key.window for key, _ in self.read(last=present + 100)] == windows[2:]
        assert self.frames.drop(5, present) == 0
        with self.database.snapshot() as connection:
            assert self.frames.oldest(self.moment(connection), 10) == 3

    def test_its_size_is_known(self) -> None:
        before = self.frames.size_bytes()
        assert self.fold(Frame(key(7), bytes(1 << 20)))
        assert before >= 0
        assert self.frames.size_bytes() > before + (1 << 19)
