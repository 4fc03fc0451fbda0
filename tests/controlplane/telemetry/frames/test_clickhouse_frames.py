"""Frames in ClickHouse's own engine, called directly and over HTTP, and a store whose frames lie there."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controlplane.contract import metrics
from controlplane.contract.errors import Unavailable
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.folding.verify import verify
from controlplane.telemetry.frames import clickhouse_frames
from controlplane.telemetry.frames.clickhouse import ClickHouse, ClickHouseServer
from controlplane.telemetry.frames.clickhouse_frames import READERS_KEEP, ClickHouseFrames
from controlplane.telemetry.frames.frame_store import Fold, Frame, FrameKey, ReadPoint
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.values.levels import FoldState
from tests.controlplane.telemetry.frames.embedded_clickhouse import EmbeddedClickHouse, served
from tests.controlplane.telemetry.ingesting import ingest_metrics
from tests.made_tables import create_tables

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = int(NOW.timestamp()) // 5
Frames = dict[FrameKey, bytes]


@pytest.fixture(params=["in process", "http"])
def clickhouse(request: pytest.FixtureRequest, empty_clickhouse: EmbeddedClickHouse) -> Iterator[ClickHouse]:
    if request.param == "in process":
        yield empty_clickhouse
    else:
        with served(empty_clickhouse) as url, ClickHouseServer(url) as server:
            yield server


def database_at(path: Path) -> Database:
    made = Database(f"sqlite:///{path}")
    create_tables(made)
    return made


class TestClickHouseFrames:
    @pytest.fixture(autouse=True)
    def _given(self, clickhouse: ClickHouse, tmp_path: Path) -> Iterator[None]:
        self.database = database_at(tmp_path / "tailwright.db")
        self.frames = ClickHouseFrames(self.database, clickhouse)
        self.frames.make_room(NOW)
        yield
        self.database.close()

    @contextmanager
    def moment(self) -> Iterator[ReadPoint]:
        with self.database.snapshot() as connection:
            yield ReadPoint(connection, self.frames.state(connection))

    def state(self) -> FoldState:
        with self.moment() as moment:
            return moment.state

    def fold(self, frames: Frames) -> bool:
        made = Fold(self.state().next(), [Frame(key, data) for key, data in frames.items()])
        self.frames.prepare(made)
        with self.database.session() as session:
            return self.frames.commit(session, made)

    def read(self, blocks: list[int] | None = None) -> Frames:
        with self.moment() as moment:
            return dict(self.frames.read(moment, 5, 1, blocks, AT, AT + 10))

    def test_a_committed_fold_is_read_by_block_and_window_within_its_range(self) -> None:
        wanted = {
            FrameKey(5, 1, block, AT + window): bytes([block + 1, window]) for block in (-1, 0, 3) for window in (0, 2)
        }
        others = [FrameKey(5, 2, 0, AT), FrameKey(10, 1, 0, AT), FrameKey(5, 1, 0, AT + 10)]
        assert self.fold({**wanted, **dict.fromkeys(others, b"other")})
        assert self.read() == wanted
        assert list(self.read()) == sorted(wanted)
        assert list(self.read([3, -1])) == sorted(key for key in wanted if key.block != 0)
        assert self.read([]) == {}

    def test_frames_are_bytes_of_any_kind(self) -> None:
        data = bytes(range(256)) * 700 + b"\r\n\\'\0"
        assert self.fold({FrameKey(5, 1, 0, AT): data, FrameKey(5, 1, 0, AT + 1): b""})
        assert self.read() == {FrameKey(5, 1, 0, AT): data, FrameKey(5, 1, 0, AT + 1): b""}

    def test_a_later_fold_takes_the_place_of_the_frames_with_its_keys_and_of_no_others(self) -> None:
        first, second = FrameKey(5, 1, 0, AT), FrameKey(5, 1, 0, AT + 1)
        self.fold({first: b"old", second: b"stays"})
        self.fold({first: b"new"})
        assert self.read() == {first: b"new", second: b"stays"}
        with self.moment() as moment:
            found = self.frames.find(moment, [first, second, FrameKey(5, 9, 9, AT)])
        assert found == {first: b"new", second: b"stays"}

    def test_what_is_prepared_and_not_committed_is_not_there_and_its_number_can_be_tried_again(self) -> None:
        key, left = FrameKey(5, 1, 0, AT), FrameKey(5, 1, 7, AT)
        self.fold({key: b"one"})
        self.frames.prepare(Fold(self.state().next(), [Frame(key, b"never"), Frame(left, b"never")]))
        assert self.read() == {key: b"one"}
        assert self.fold({key: b"two"})
        assert self.read() == {key: b"two"}

    def test_a_fold_whose_transaction_is_rolled_back_has_not_happened(self) -> None:
        made = Fold(self.state().next(), [Frame(FrameKey(5, 1, 0, AT), b"lost")])
        self.frames.prepare(made)
        with pytest.raises(RuntimeError), self.database.session() as session:
            assert self.frames.commit(session, made)
            raise RuntimeError
        assert (self.read(), self.state().number) == ({}, 0)

    def test_preparing_a_number_that_another_has_committed_touches_nothing_of_it(self) -> None:
        key, before = FrameKey(5, 1, 0, AT), self.state()
        assert self.fold({key: b"theirs"})
        late = Fold(before.next(), [Frame(key, b"late")])
        self.frames.prepare(late)
        with self.database.session() as session:
            assert not self.frames.commit(session, late)
            session.rollback()
        assert self.read() == {key: b"theirs"}

    def test_a_reader_sees_the_frames_of_its_own_moment(self) -> None:
        key = FrameKey(5, 1, 0, AT)
        self.fold({key: b"then"})
        with self.moment() as moment:
            assert self.fold({key: b"now", FrameKey(5, 1, 1, AT): b"new"})
            self.frames.make_room(NOW)
            assert dict(self.frames.read(moment, 5, 1, None, AT, AT + 1)) == {key: b"then"}
        assert self.read()[key] == b"now"

    def test_what_was_replaced_long_ago_is_removed_and_what_stands_stays(self) -> None:
        key, other = FrameKey(5, 1, 0, AT), FrameKey(5, 1, 0, AT + 1)
        self.fold({key: b"a" * 1000, other: b"stays"})
        self.fold({key: b"b"})
        for _ in range(READERS_KEEP + 1):
            self.fold({})
        self.frames.make_room(NOW)
        assert self.read() == {key: b"b", other: b"stays"}
        count = self.frames.clickhouse.rows(f"SELECT count() FROM {clickhouse_frames.TABLE}", ("UInt64",))
        assert list(count) == [(2,)]

    def test_a_level_is_dropped_up_to_a_window(self) -> None:
        day = 86_400 // 5
        keys = [FrameKey(5, 1, 0, AT + step) for step in (-40 * day, -1, 0, 1)]
        self.fold({**dict.fromkeys(keys, b"x"), FrameKey(10, 1, 0, AT - 10): b"other level"})
        assert self.frames.drop(5, AT) == 2
        assert self.frames.drop(5, AT) == 0
        with self.moment() as moment:
            assert self.frames.oldest(moment, 5) == AT
            assert self.frames.oldest(moment, 10) == AT - 10
        assert list(self.read()) == keys[2:]

    def test_extremes_and_metrics_of_a_level(self) -> None:
        with self.moment() as moment:
            assert (self.frames.newest(moment, 5, AT), self.frames.oldest(moment, 5)) == (None, None)
            assert self.frames.metrics(moment, 5, AT, AT + 9) == []
        self.fold({FrameKey(5, 4, 0, AT): b"x", FrameKey(5, 2, -1, AT + 3): b"x", FrameKey(5, 9, 0, AT + 9): b"x"})
        with self.moment() as moment:
            assert self.frames.metrics(moment, 5, AT, AT + 9) == [2, 4]
            assert (self.frames.newest(moment, 5, AT + 8), self.frames.oldest(moment, 5)) == (AT + 3, AT)
        assert self.frames.size_bytes() > 0


def test_an_older_copy_of_the_database_does_not_see_what_came_after_it(
    empty_clickhouse: EmbeddedClickHouse, tmp_path: Path
) -> None:
    """Restored from a backup, the service counts its folds again from there; what came after is not theirs."""
    key, lost = FrameKey(5, 1, 0, AT), FrameKey(5, 1, 0, AT + 1)
    for name, contents in (("first", [{key: b"lost"}, {lost: b"lost"}]), ("restored", [{key: b"new"}, {}])):
        database = database_at(tmp_path / f"{name}.db")
        frames = ClickHouseFrames(database, empty_clickhouse)
        for content in contents:
            with database.snapshot() as connection:
                state = frames.state(connection)
            fold = Fold(state.next(), [Frame(*item) for item in content.items()])
            frames.prepare(fold)
            with database.session() as session:
                assert frames.commit(session, fold)
        with database.snapshot() as connection:
            seen = dict(frames.read(ReadPoint(connection, frames.state(connection)), 5, 1, None, AT, AT + 2))
        database.close()
    assert seen == {key: b"new"}


def test_a_store_with_its_frames_in_clickhouse_answers_as_one_without(
    empty_clickhouse: EmbeddedClickHouse, tmp_path: Path, clock: Any, make_report: Any, start: datetime
) -> None:
    answers = []
    for name in ("plain", "clickhouse"):
        database = database_at(tmp_path / f"{name}.db")
        frames = ClickHouseFrames(database, empty_clickhouse) if name == "clickhouse" else None
        store = TelemetryStore(database, clock, frames=frames)
        store.start()
        try:
            for second in range(0, 180, 5):
                for node in ("n1", "n2"):
                    report = make_report(node=node, start=start + timedelta(seconds=second))
                    report.histogram([0.1 + second / 1000, 0.2], model="m")
                    report.number(metrics.OUTPUT_TOKENS.name, 3)
                    ingest_metrics(store, report.request)
                if second % 30 == 0:
                    store.tick(clock())
            store.tick(clock() + timedelta(hours=1))
            late = make_report(node="n1", start=start, seconds=4.0)
            late.histogram([0.9], model="m")
            ingest_metrics(store, late.request)
            store.tick(clock() + timedelta(hours=2))
            end = start + timedelta(seconds=180)
            answers.append(
                [
                    (
                        series.labels,
                        series.total.count,
                        series.total.total,
                        [sketch.count for _, sketch in series.steps],
                    )
                    for step_s in (None, 10.0, 60.0)
                    for series in store.histograms(Question("ttft", Span(start, end), by=["node"], step_s=step_s))
                ]
            )
            assert [series.value for series in store.scalars(Question("output_tokens", Span(start, end)))] == [216.0]
            assert verify(database, store.frames).findings.all == []
        finally:
            store.close()
            database.close()
    assert answers[0] == answers[1]
    assert sum(count for _, count, _, _ in answers[0][:2]) == 145
    ((rows,),) = empty_clickhouse.rows(f"SELECT count() FROM {clickhouse_frames.TABLE}", ("UInt64",))
    assert rows > 0


def test_what_clickhouse_refuses_is_raised_with_its_words(empty_clickhouse: EmbeddedClickHouse) -> None:
    with (
        served(empty_clickhouse) as url,
        ClickHouseServer(url) as server,
        pytest.raises(Unavailable, match=r"500.*UNKNOWN_TABLE"),
    ):
        server.execute("SELECT 1 FROM missing_table")


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with (
        ClickHouseServer("http://127.0.0.1:9/x") as server,
        pytest.raises(Unavailable, match="ClickHouse at http://127"),
    ):
        server.execute("SELECT 1")
