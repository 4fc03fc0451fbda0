"""Frames written ahead of their fold: never seen before it commits, nor if it does not, whoever else folds."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from controlplane.db.database import Database
from controlplane.telemetry.frames import frames_ahead
from controlplane.telemetry.frames.frame_store import Fold, Frame, FrameKey, ReadPoint
from controlplane.telemetry.frames.sql_frames import SqlFrames
from controlplane.telemetry.values.levels import FoldState, Level
from tests.made_tables import create_tables

STEP = 1000


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_ahead, "STEP_BYTES", STEP)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'tailwright.db'}")
    create_tables(database)
    yield database
    database.close()


class Folder:
    """One of those who fold. `meanwhile` happens after each step that is written ahead."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.steps = 0
        self.meanwhile: Callable[[], object] = lambda: None
        self.frames = SqlFrames(database, self._slept)

    def _slept(self, seconds: float) -> None:
        self.steps += 1
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        self.meanwhile = meanwhile

    def fold(self, contents: dict[int, bytes], *levels: Level) -> Fold:
        """The next fold: frames of windows of the finest level."""
        with self.database.snapshot() as connection:
            state = self.frames.state(connection).next(*levels)
        return Fold(state, [Frame(FrameKey(5, 1, 0, window), data) for window, data in contents.items()])

    def commit(self, fold: Fold, *, fail: bool = False) -> bool:
        with self.database.session() as session:
            done = self.frames.commit(session, fold)
            if fail or not done:
                session.rollback()
        return done and not fail

    def write(self, contents: dict[int, bytes], *levels: Level) -> bool:
        fold = self.fold(contents, *levels)
        self.frames.prepare(fold)
        return self.commit(fold)

    def read(self) -> dict[int, bytes]:
        with self.database.snapshot() as connection:
            moment = ReadPoint(connection, self.frames.state(connection))
            read = {key.window: data for key, data in self.frames.read(moment, 5, 1, None, 0, 10_000)}
            keys = [FrameKey(5, 1, 0, window) for window in range(100)]
            found = {key.window: data for key, data in self.frames.find(moment, keys).items()}
            assert read == found
            assert self.frames.oldest(moment, 5) == min(read, default=None)
            assert self.frames.newest(moment, 5, 10_000) == max(read, default=None)
        return read

    def rows(self) -> int:
        with self.database.snapshot() as connection:
            return int(connection.execute(text("SELECT count(*) FROM telemetry_frame")).scalar_one())


def large(first: int, filled: bytes, windows: int = 8) -> dict[int, bytes]:
    """Several steps of frames."""
    return {window: filled * (STEP // 2) for window in range(first, first + windows)}


def test_a_large_fold_is_written_in_steps_and_seen_at_its_commit(database: Database) -> None:
    one, other = Folder(database), Folder(database)
    seen = []

    def look() -> None:
        seen.append((other.read(), other.rows()))
        with database.session() as session:  # Others may write between two steps.
            session.execute(text("UPDATE telemetry_fold SET id = id"))

    one.meanwhile = look
    fold = one.fold(large(0, b"a"))
    one.frames.prepare(fold)
    assert seen == [({}, 2), ({}, 4), ({}, 6), ({}, 8)]
    with database.session() as session:
        assert one.frames.commit(session, fold)
        assert other.read() == {}
    assert other.read() == large(0, b"a")


def test_a_small_fold_is_not_written_ahead(database: Database) -> None:
    one = Folder(database)
    one.frames.prepare(one.fold({1: b"a" * STEP}))
    assert one.rows() == 0


def test_what_is_replaced_is_replaced_by_the_commit(database: Database) -> None:
    one = Folder(database)
    assert one.write({3: b"old"})
    fold = one.fold(large(0, b"a"))
    one.frames.prepare(fold)
    assert one.rows() == 8 and one.read() == {3: b"old"}
    assert one.commit(fold)
    assert one.read() == large(0, b"a")


def test_what_lies_below_what_is_built_is_left_to_the_commit(database: Database) -> None:
    one = Folder(database)
    assert one.write({}, Level(10, 0, 2))
    one.frames.prepare(one.fold(large(0, b"a")))
    assert one.rows() == 4


def test_what_was_never_committed_is_removed_by_the_next_fold(database: Database) -> None:
    crashed, later = Folder(database), Folder(database)
    assert crashed.write({1: b"first"})
    crashed.frames.prepare(crashed.fold(large(10, b"a")))
    assert later.rows() == 9
    assert later.write({2: b"small"})
    assert later.rows() == 2 and later.read() == {1: b"first", 2: b"small"}
    crashed.frames.prepare(crashed.fold(large(10, b"b")))
    assert later.write(large(20, b"c"))
    assert later.read() == {1: b"first", 2: b"small", **large(20, b"c")} and later.rows() == 10


def test_a_fold_that_failed_is_tried_again_with_other_content(database: Database) -> None:
    one = Folder(database)
    failed = one.fold(large(0, b"a"))
    one.frames.prepare(failed)
    assert not one.commit(failed, fail=True)
    for contents in (large(2, b"b"), {5: b"small"}):
        again = Fold(failed.state, [Frame(FrameKey(5, 1, 0, window), data) for window, data in contents.items()])
        one.frames.prepare(again)
        assert not one.commit(again, fail=True)
    assert one.read() == {}
    one.frames.prepare(again)
    assert one.commit(again) and one.read() == {5: b"small"} and one.rows() == 1


def test_of_two_who_begin_the_same_fold_the_first_commits(database: Database) -> None:
    one, other = Folder(database), Folder(database)
    mine, its = one.fold(large(0, b"a")), other.fold(large(0, b"b"))
    one.frames.prepare(mine)
    other.frames.prepare(its)
    assert not other.commit(its)
    assert one.commit(mine) and one.read() == large(0, b"a")


@pytest.mark.parametrize("its", [large(0, b"b"), {5: b"small"}])
def test_who_begins_later_ends_what_another_has_begun(database: Database, its: dict[int, bytes]) -> None:
    one, other = Folder(database), Folder(database)

    def overtake() -> None:
        assert other.write(its)
        one.meanwhile = lambda: None

    one.meanwhile = overtake
    fold = one.fold(large(0, b"a"))
    one.frames.prepare(fold)
    assert one.steps == 1
    assert not one.commit(fold)
    assert one.read() == its and one.rows() == len(its)


_FOLDS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.dictionaries(st.integers(0, 30), st.sampled_from([b"s", b"m" * 300, b"l" * 900]), max_size=8),
        st.sampled_from(["commit", "crash", "fail", "build"]),
    ),
    max_size=8,
)


@pytest.mark.slow
@given(_FOLDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
def test_only_what_was_committed_is_ever_there(tmp_path_factory: pytest.TempPathFactory, folds: list) -> None:  # type: ignore[type-arg]
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('folds') / 'tailwright.db'}")
    create_tables(database)
    folders = [Folder(database), Folder(database)]
    there: dict[int, bytes] = {}
    built = 0
    for who, contents, then in folds:
        built += then == "build"
        fold = folders[who].fold(contents, Level(10, 0, built))
        folders[who].frames.prepare(fold)
        assert folders[1 - who].read() == there
        if then == "crash":
            continue
        if folders[who].commit(fold, fail=then == "fail"):
            there |= contents
        else:
            assert then == "fail"
        assert folders[1 - who].read() == there
    assert folders[0].write({}) and folders[0].rows() == len(there)
    database.close()


def test_the_state_survives_what_is_begun(database: Database) -> None:
    one = Folder(database)
    assert one.write({1: b"a"}, Level(10, 0, 1), Level(60, 1, 2))
    before = one.fold({}).state
    fold = one.fold(large(10, b"a"), Level(10, 0, 9))
    one.frames.prepare(fold)
    assert one.fold({}).state.levels == before.levels
    assert one.commit(fold)
    with database.snapshot() as connection:
        state = one.frames.state(connection)
    assert state == FoldState(3, {**before.levels, 10: Level(10, 0, 9)})
