"""The product's database, with a seam at the two moments that count: right before a commit, and right after it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError
from sqlmodel import Session, col, select

from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.db.database import Database
from controlplane.rollouts.tables import RolloutRow

Move = tuple[RolloutPhase, RolloutPhase]
"""From one phase to another."""


class Died(BaseException):
    """The service's process has ended here: nothing of it runs on, and no handler of it either."""


def refused() -> OperationalError:
    """What a driver raises where the disk is full or broken."""
    return OperationalError("COMMIT", None, sqlite3.OperationalError("disk I/O error"))


@dataclass(frozen=True)
class Moved:
    """A rollout goes from phase to phase in one transaction. told: the nodes that have been told then."""

    rollout: int
    move: Move
    told: tuple[str, ...]


class Strikes(Protocol):
    """What happens at those moments; each may raise `Died`, `committing` what a driver raises, too."""

    def writing(self) -> None:
        """A transaction that writes is about to begin: what it rests on has been read."""

    def committing(self, moved: tuple[Moved, ...]) -> None:
        """All its statements are done."""

    def committed(self, moved: tuple[Moved, ...]) -> None:
        """It is on the disk, and nobody has acted on it."""


class StrikingDatabase(Database):
    """Tells `strikes` of each transaction which rollouts it moves."""

    def __init__(self, url: str, strikes: Strikes) -> None:
        super().__init__(url)
        self._strikes = strikes
        self._moved: tuple[Moved, ...] = ()
        self._before: dict[int, _Standing] = {}
        event.listen(self.engine, "commit", self._committing)

    @contextmanager
    def session(self) -> Iterator[Session]:
        self._strikes.writing()
        self._moved = ()
        with super().session() as session:
            self._before = _rollouts(session)
            event.listen(session, "before_commit", self._look)
            yield session
        moved, self._moved = self._moved, ()
        self._strikes.committed(moved)

    def _look(self, session: Session) -> None:
        session.flush()
        self._moved = tuple(
            Moved(number, (self._before.get(number, _MADE).phase, now.phase), now.told)
            for number, now in _rollouts(session).items()
            if self._before.get(number, _MADE).step != now.step
        )

    def _committing(self, _: Connection) -> None:
        self._strikes.committing(self._moved)


@dataclass(frozen=True)
class _Standing:
    step: int
    phase: RolloutPhase
    told: tuple[str, ...] = ()


_MADE = _Standing(0, RolloutPhase.PROPOSED)
"""What is made and begun in one transaction was proposed in between."""


def _rollouts(session: Session) -> dict[int, _Standing]:
    query = select(RolloutRow.id, RolloutRow.step, RolloutRow.phase, RolloutRow.told_nodes).order_by(col(RolloutRow.id))
    return {
        number: _Standing(step, RolloutPhase(phase), tuple(told))
        for number, step, phase, told in session.exec(query)
        if number is not None
    }
