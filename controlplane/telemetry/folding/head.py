"""The head: points that are not folded into frames yet, read from the pending rows of the caller's snapshot.

Guarantee: what is read belongs to the snapshot, so head and frames never both hold a point, whichever replica has
written or folded it, and a restart loses nothing. Decoded rows are cached by their id, which is never used twice, until
they are folded: by this replica (`drop`), or as a later look at the table shows (`keep`).
"""

import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from cachetools import FIFOCache
from sqlalchemy import Connection, Table, bindparam, select
from sqlmodel import SQLModel

from controlplane.db.binary_transfer import BINARY_ROWS
from controlplane.db.driver_statement import DriverStatement
from controlplane.telemetry.frames.fleet_columns import summed
from controlplane.telemetry.journal import pending
from controlplane.telemetry.journal.names import Names
from controlplane.telemetry.values.columns import Columns, nbytes

CACHED_BYTES = 640 << 20
"""A report of 60 histograms takes some 12 kB for about 40 s: room for 10,000 nodes that report each 10 s. With too
little of it, who reads the head in its order finds nothing here."""
CHUNK = 100
_TABLE: Table = SQLModel.metadata.tables["telemetry_pending"]
_IDS = DriverStatement(
    select(_TABLE.c.id)
    .where(_TABLE.c.first_window < bindparam("last"), _TABLE.c.last_window >= bindparam("first"))
    .order_by(_TABLE.c.id)
)


class PendingColumns(NamedTuple):
    """One commit's points, with the store's ids; they may lie in several windows. fleet: see `fleet_columns.summed`."""

    id: int
    columns: Columns
    fleet: Columns
    nbytes: int


class Head:
    """Thread-safe."""

    def __init__(self, names: Names, cached_bytes: int = CACHED_BYTES) -> None:
        self._names = names
        self._lock = threading.Lock()
        self._cache: FIFOCache[int, PendingColumns] = FIFOCache(cached_bytes, lambda row: row.nbytes)

    def ids(self, connection: Connection, first_window: int, last_window: int) -> Sequence[int]:
        """Of all pending rows that hold points of windows first .. last - 1, in the order they were written."""
        return _IDS.run(connection, {"first": first_window, "last": last_window}).scalars().all()

    def of_rows(self, connection: Connection, ids: Sequence[int]) -> Iterator[PendingColumns]:
        """These pending rows, in the order given; one that the snapshot does not have is left out."""
        for start in range(0, len(ids), CHUNK):
            part = ids[start : start + CHUNK]
            with self._lock:
                found = {number: self._cache[number] for number in part if number in self._cache}
            missing = [number for number in part if number not in found]
            if missing:
                query = select(_TABLE.c.id, _TABLE.c.points).where(_TABLE.c.id.in_(missing))
                query = query.execution_options(**BINARY_ROWS)
                decoded = {
                    number: self._decode(connection, number, points) for number, points in connection.execute(query)
                }
                self._keep(decoded.values())
                found.update(decoded)
            yield from (found[number] for number in part if number in found)

    def drop(self, ids: Sequence[int]) -> None:
        """Forget rows that were folded."""
        with self._lock:
            for number in ids:
                self._cache.pop(number, None)

    def waiting(self, connection: Connection) -> frozenset[int]:
        """The ids of all pending rows."""
        return frozenset(connection.execute(select(_TABLE.c.id)).scalars())

    def keep(self, waiting: Container[int]) -> None:
        """Forget all other rows: another replica has folded them, or a reader of an older snapshot has brought them
        back. One that was written since is decoded again."""
        with self._lock:
            for number in [number for number in self._cache if number not in waiting]:
                del self._cache[number]

    def _decode(self, connection: Connection, number: int, points: bytes) -> PendingColumns:
        columns = pending.decode(bytes(points))
        fleet = summed(
            columns,
            self._names.fleet(connection, columns.histograms.labels),
            self._names.fleet(connection, columns.sums.labels),
        )
        return PendingColumns(number, columns, fleet, nbytes(columns) + nbytes(fleet))

    def _keep(self, rows: Iterable[PendingColumns]) -> None:
        with self._lock:
            for row in rows:
                with suppress(ValueError):  # One that takes more than all of the room is decoded each time.
                    self._cache[row.id] = row
