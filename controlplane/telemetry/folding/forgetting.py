"""Removes rows that are too old, a bounded number in each transaction: nobody waits long for the write lock.

What an index finds by its time goes at once. A table whose rows move in time with every report has no such index, which
each report would pay for: it is walked by its key, a piece at a time, in a transaction that only reads.
"""

from typing import Any

from sqlalchemy import Table, delete, select

from controlplane.db.database import Database

ROWS_AT_ONCE = 2_000
ROWS_A_STEP = 20_000


def drop_older(database: Database, table: Table, time_column: str, before: int, *, at_once: int = ROWS_AT_ONCE) -> int:
    """Remove the rows whose time, which has an index, is below `before`; the oldest first. Returns how many.

    Rows of one time go together, however many they are.
    """
    time = table.c[time_column]
    removed = 0
    while True:
        with database.read_session() as session:
            query = select(time).where(time < before).order_by(time).limit(at_once)
            oldest = session.connection().execute(query).scalars().all()
        if not oldest:
            return removed
        with database.session() as session:
            removed += session.connection().execute(delete(table).where(time <= oldest[-1])).rowcount


class Sweep:
    """Walks a table by its key, and from the beginning again after its end. For one thread at a time."""

    def __init__(self, table: Table, time: str, *, rows: int = ROWS_A_STEP, at_once: int = ROWS_AT_ONCE) -> None:
        (self._key,) = table.primary_key
        self._table, self._time = table, table.c[time]
        self._rows, self._at_once = rows, at_once
        self._done_to: Any = None

    def step(self, database: Database, before: int) -> int:
        """Look at the next piece, and remove what of it is older than `before`. Returns how many rows that were."""
        with database.read_session() as session:
            query = select(self._key, self._time).order_by(self._key).limit(self._rows)
            if self._done_to is not None:
                query = query.where(self._key > self._done_to)
            rows = session.connection().execute(query).all()
        self._done_to = rows[-1][0] if len(rows) == self._rows else None
        old = [key for key, time in rows if time < before]
        removed = 0
        for start in range(0, len(old), self._at_once):
            # Its sender may have been heard of since.
            chosen = (self._key.in_(old[start : start + self._at_once]), self._time < before)
            with database.session() as session:
                removed += session.connection().execute(delete(self._table).where(*chosen)).rowcount
        return removed
