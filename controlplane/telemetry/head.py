"""The head: windows that are not folded into frames yet, read from the pending rows of the caller's snapshot.

Guarantee: what is read belongs to the snapshot, so head and frames never both hold a point, whichever replica has
written or folded it, and a restart loses nothing. Decoded rows are cached by their id, which is never used twice.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, select
from sqlmodel import col

from controlplane.telemetry import pending
from controlplane.telemetry.pending import Block, Key
from controlplane.telemetry.tables import PendingRow

CACHED_ROWS = 8192
CHUNK = 500


class PendingBlocks(NamedTuple):
    id: int
    window: int
    blocks: dict[Key, Block]


class Head:
    """Thread-safe."""

    def __init__(self, cached_rows: int = CACHED_ROWS) -> None:
        self._cached_rows = cached_rows
        self._lock = threading.Lock()
        self._cache: OrderedDict[int, dict[Key, Block]] = OrderedDict()

    def read(self, connection: Connection, first: int, last: int) -> Iterator[PendingBlocks]:
        """All pending rows of windows first .. last - 1, in the order they were written."""
        window = col(PendingRow.window)
        rows = connection.execute(
            select(col(PendingRow.id), window).where(window >= first, window < last).order_by(col(PendingRow.id))
        ).all()
        yield from self.of_rows(connection, [(number, at) for number, at in rows if number is not None])

    def of_rows(self, connection: Connection, rows: list[tuple[int, int]]) -> Iterator[PendingBlocks]:
        """The blocks of pending rows given as (id, window)."""
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            with self._lock:
                found = {number: self._cache[number] for number, _ in part if number in self._cache}
            missing = [number for number, _ in part if number not in found]
            if missing:
                query = select(col(PendingRow.id), col(PendingRow.points)).where(col(PendingRow.id).in_(missing))
                decoded = {number: pending.decode(data) for number, data in connection.execute(query) if number}
                self._keep(decoded)
                found.update(decoded)
            yield from (PendingBlocks(number, window, found[number]) for number, window in part)

    def drop(self, numbers: list[int]) -> None:
        """Forget rows that were folded."""
        with self._lock:
            for number in numbers:
                self._cache.pop(number, None)

    def _keep(self, decoded: dict[int, dict[Key, Block]]) -> None:
        with self._lock:
            self._cache.update(decoded)
            while len(self._cache) > self._cached_rows:
                self._cache.popitem(last=False)
