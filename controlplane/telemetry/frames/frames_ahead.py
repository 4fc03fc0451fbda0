"""A large fold's new frames, written before it commits: for a database that one writer at a time may write to (SQLite).

The frames of a large fleet's fold are tens of megabytes. In one transaction they would keep all reports waiting that
are to be committed meanwhile; in steps of a few megabytes each waits for one step only. Rows written ahead carry the
number that the fold is going to have, and readers take rows up to the number that their snapshot knows.

Guarantee: nothing written ahead is seen unless its fold commits. To begin takes a number by itself, which changes
nothing else: of several who fold at once only the one who began last can write on, or commit. What was begun and not
committed is removed in the transaction in which the next one begins, or commits without having begun.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlalchemy import bindparam, delete, select, update
from sqlmodel import Session, col

from controlplane.db.database import Database
from controlplane.telemetry.frames.frame_store import Fold, Frame, FrameKey
from controlplane.telemetry.tables import FoldRow, FrameRow
from controlplane.telemetry.values.levels import BASE_S, COARSER, FoldState

STEP_BYTES = 4 << 20
"""Some 20 ms of the write lock."""
ONE = 1
"""The id of the only row of `telemetry_fold`."""

_NOT_COMMITTED = delete(FrameRow).where(
    col(FrameRow.resolution) == bindparam("level"),
    col(FrameRow.window) >= bindparam("floor"),
    col(FrameRow.version) >= bindparam("number"),
)


@dataclass
class Begun:
    """A fold that was begun. number: what it took, the fold's own is one more; written: what is there already."""

    fold: int
    number: int
    written: set[FrameKey] = field(default_factory=set)


class FramesAhead:
    """For one thread at a time. `write` writes frames with a version in the session's transaction."""

    def __init__(
        self,
        database: Database,
        write: Callable[[Session, Sequence[Frame], int], None],
        sleep: Callable[[float], object],
    ) -> None:
        self._database = database
        self._write = write
        self._sleep = sleep
        self._begun: Begun | None = None

    def begun(self, fold: Fold) -> Begun | None:
        """What was begun of a fold."""
        return self._begun if self._begun is not None and self._begun.fold == fold.number else None

    def write(self, fold: Fold) -> None:
        """Begin a fold and write of it what no reader has to see replaced; a small one is left to its commit."""
        earlier = self.begun(fold)
        self._begun = None
        if earlier is None and sum(len(data) for _, data in fold.frames) <= STEP_BYTES:
            return
        begun = Begun(fold.number, fold.number if earlier is None else earlier.number + 1)
        with self._database.session() as session:
            if not take_number(session, begun.number):
                session.rollback()
                return
            new = self._new(session, fold.frames)
        self._begun = begun
        for step in _steps(new):
            with self._database.session() as session:
                if session.execute(select(col(FoldRow.number))).scalar() != begun.number:
                    return  # Another began: the commit will find so.
                began = time.monotonic()  # From here on the lock is held.
                self._write(session, step, begun.number + 1)
            begun.written.update(key for key, _ in step)
            # As long again for others: who waits for the lock asks for it at intervals only.
            self._sleep(time.monotonic() - began)

    def _new(self, session: Session, frames: Sequence[Frame]) -> list[Frame]:
        """Frames of windows in which there is none yet, and which `take_number` will look through."""
        floors = _floors(session)
        windows = {(key.resolution, key.window) for key, _ in frames if key.window >= floors[key.resolution]}
        there = select(col(FrameRow.version)).limit(1)
        empty = {
            (resolution, window)
            for resolution, window in windows
            if session.execute(
                there.where(col(FrameRow.resolution) == resolution, col(FrameRow.window) == window)
            ).scalar()
            is None
        }
        return [frame for frame in frames if (frame.key.resolution, frame.key.window) in empty]


def take_number(session: Session, number: int, levels: str | None = None) -> bool:
    """Count the folds up to a number, and remove what others have begun and not committed: all of it lies beyond what
    is built. False where the number is not the next one; the transaction must be rolled back then."""
    floors = _floors(session).items()
    session.connection().execute(
        _NOT_COMMITTED, [{"level": resolution, "floor": floor, "number": number} for resolution, floor in floors]
    )
    return counted(session, number, levels)


def counted(session: Session, number: int, levels: str | None = None) -> bool:
    """Count the folds up to a number. False where it is not the next one."""
    found = session.connection().execute(
        update(FoldRow)
        .where(col(FoldRow.id) == ONE, col(FoldRow.number) == number - 1)
        .values({"number": number} if levels is None else {"number": number, "levels": levels})
        .execution_options(synchronize_session=False)
    )
    return found.rowcount == 1


def _floors(session: Session) -> dict[int, int]:
    """By resolution, the first window that is not built; of the finest level, that the next one is not built of."""
    levels = FoldState.load(*session.execute(select(col(FoldRow.number), col(FoldRow.levels))).one()).levels
    first = levels[COARSER[0]]
    return {
        resolution: first.built_to * first.resolution // BASE_S if resolution == BASE_S else level.built_to
        for resolution, level in levels.items()
    }


def _steps(frames: Sequence[Frame]) -> Iterator[list[Frame]]:
    """In the order given, STEP_BYTES each and one frame more."""
    step: list[Frame] = []
    size = 0
    for frame in frames:
        step.append(frame)
        size += len(frame.data)
        if size >= STEP_BYTES:
            yield step
            step, size = [], 0
    if step:
        yield step
