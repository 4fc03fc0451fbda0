"""Where frames are kept: the seam behind which another database can stand.

What is acknowledged and not folded yet (the pending rows), the names and the state of the folds are in the service's
own database, whatever keeps the frames. A fold moves points from the one to the other.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection
from sqlmodel import Session

from controlplane.telemetry.values.levels import FoldState


class FrameKey(NamedTuple):
    """Which frame: resolution in seconds, metric id, block of nodes (`gather.FLEET`: all of them), window."""

    resolution: int
    metric: int
    block: int
    window: int


class Frame(NamedTuple):
    key: FrameKey
    data: bytes


@dataclass(frozen=True)
class ReadPoint:
    """What a reader sees: a snapshot of the service's database, and the state of the folds in it."""

    connection: Connection
    state: FoldState


@dataclass(frozen=True)
class Fold:
    """One change of the frames. `state` is what holds after it; its number is the fold's name.

    frames: new or in the place of the ones with the same keys; folded: the pending rows whose points are in them.
    """

    state: FoldState
    frames: Sequence[Frame]
    folded: Sequence[int] = ()

    @property
    def number(self) -> int:
        return self.state.number


class FrameStore(ABC):
    """Invariants of every implementation:

    - A reader sees the frames as the fold left them whose number its `ReadPoint` has: all of that fold and of those
    before
      it, nothing of a later one. With the pending rows of the same snapshot that is every acknowledged point once.
    - A fold is `prepare`d outside any transaction, and then `commit`ted in the transaction that deletes its pending
      rows and writes its state. Where either fails it has not happened, and a fold of the same number may be tried
      again with other content: preparing replaces whatever an earlier attempt of that number has left behind. A
      committed number is never prepared again.
    - Of several folds of one number at most one commits; the other's `commit` returns False and its transaction must be
      rolled back.
    - `read` yields each (block, window) of its range at most once, by block and then by window.
    - `drop` removes what the state no longer keeps. It may be late or repeated: nobody reads below `kept_from`.
    """

    @abstractmethod
    def state(self, connection: Connection) -> FoldState:
        """The state of the folds in a snapshot; `FoldState.first()` before the first."""

    @abstractmethod
    def read(
        self,
        moment: ReadPoint,
        resolution: int,
        metric: int,
        blocks: Collection[int] | None,
        first: int,
        last: int,
        *,
        fleet: bool = True,
    ) -> Iterator[Frame]:
        """A metric's frames of windows first .. last - 1. `blocks`: those wanted, None: all; `fleet`: that too."""

    @abstractmethod
    def find(self, moment: ReadPoint, keys: Collection[FrameKey]) -> dict[FrameKey, bytes]:
        """Those of these frames that there are."""

    @abstractmethod
    def metrics(self, moment: ReadPoint, resolution: int, first: int, last: int) -> list[int]:
        """The metrics that have frames in windows first .. last - 1, ascending; maybe others of the level as well."""

    @abstractmethod
    def newest(self, moment: ReadPoint, resolution: int, last: int) -> int | None:
        """The newest window of a level that has a frame, at most `last`."""

    @abstractmethod
    def oldest(self, moment: ReadPoint, resolution: int) -> int | None:
        """The oldest window of a level that has a frame."""

    @abstractmethod
    def prepare(self, fold: Fold) -> None:
        """Make ready what `commit` is to make visible."""

    @abstractmethod
    def commit(self, session: Session, fold: Fold) -> bool:
        """In the caller's transaction: the frames and the state. False where another fold of this number was first."""

    @abstractmethod
    def drop(self, resolution: int, before: int) -> int:
        """Remove a level's frames of windows below `before`, in transactions of its own. Returns how many, at least."""

    @abstractmethod
    def make_room(self, now: datetime) -> None:
        """What is to be made ahead for the coming windows, where the database wants that."""

    @abstractmethod
    def size_bytes(self) -> int:
        """Bytes on disk that frames (or the database that they share) take."""

    def fault(self) -> str:
        """Why frames cannot be read and written now, though the service's own database can; else empty."""
        return ""
