"""The durable position of an exporter, shared by all replicas.

Guarantee: of several replicas one at a time holds the lease on an interval; the position only moves forward, and only
by whoever saw the position it moves from.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, update

from controlplane.db.database import Database
from controlplane.telemetry.values.export_tables import ExportRow

LEASE_S = 60.0


@dataclass(frozen=True)
class Position:
    """Delivered up to `at`; `attempts` so far at what follows; nobody is to try again before `rest_until`."""

    at: datetime
    attempts: int
    rest_until: datetime | None


class Positions:
    """One exporter's row."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name

    def read(self, beginning: datetime) -> Position:
        """Where to go on; `beginning` for an exporter that has never run."""
        found = self._look()
        if found is None:
            try:
                with self._database.session() as session:
                    session.add(ExportRow(name=self._name, position=beginning))
            except IntegrityError:
                pass  # Another replica was faster; its beginning counts.
            found = self._look()
            assert found is not None
        return found

    def _look(self) -> Position | None:
        with self._database.read_session() as session:
            row = session.get(ExportRow, self._name)
            return None if row is None else Position(row.position, row.attempts, row.next_attempt_at)

    def lease(self, seen: Position, now: datetime) -> Position | None:
        """Take the interval after `seen`; None when another replica was faster. Counts as an attempt."""
        until = now + timedelta(seconds=LEASE_S)
        taken = Position(seen.at, seen.attempts + 1, until)
        with self._database.session() as session:
            return taken if self._set(session, seen, taken) else None

    def rest(self, held: Position, until: datetime) -> None:
        """The attempt has failed: nobody tries again before `until`."""
        with self._database.session() as session:
            self._set(session, held, Position(held.at, held.attempts, until))

    def advance(self, seen: Position, to: datetime) -> bool:
        """All before `to` is done with. False when somebody else has moved the position meanwhile."""
        with self._database.session() as session:
            return self._set(session, seen, Position(to, 0, None))

    def _set(self, session: Session, seen: Position, to: Position) -> bool:
        """Compare and set on position and attempts: of two replicas exactly one succeeds."""
        statement = (
            update(ExportRow)
            .where(
                col(ExportRow.name) == self._name,
                col(ExportRow.position) == seen.at,
                col(ExportRow.attempts) == seen.attempts,
            )
            .values(position=to.at, attempts=to.attempts, next_attempt_at=to.rest_until)
            .execution_options(synchronize_session=False)
        )
        return bool(session.exec(statement).rowcount == 1)
