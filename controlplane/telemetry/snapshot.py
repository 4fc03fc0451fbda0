"""One state of the database, and what it holds of a metric.

Guarantee: all reads of a snapshot see the same committed state, so that frames and head never both hold a point.
No write lock is taken.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection, select
from sqlmodel import col

from controlplane.contract.metrics import MetricKind
from controlplane.db.database import Database
from controlplane.telemetry.compaction import decode
from controlplane.telemetry.head import Head
from controlplane.telemetry.pending import Block
from controlplane.telemetry.tables import FrameRow
from controlplane.telemetry.timespan import windows_in

FRAMES_AT_ONCE = 200


@contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """A connection in a read transaction of its own."""
    with database.engine.connect() as connection:
        if database.is_sqlite:
            yield connection.execution_options(begin="BEGIN")
        else:
            yield connection.execution_options(isolation_level="REPEATABLE READ")


def blocks(
    connection: Connection, head: Head, metric: str, kind: MetricKind, start: datetime, end: datetime
) -> Iterator[tuple[int, Block]]:
    """Everything of a metric in the windows of [start, end): frames first, then what is not folded yet."""
    first, last = windows_in(start, end)
    window = col(FrameRow.window)
    query = (
        select(window, col(FrameRow.frame))
        .where(col(FrameRow.metric) == metric, col(FrameRow.kind) == kind.value, window >= first, window < last)
        .order_by(window)
        .execution_options(yield_per=FRAMES_AT_ONCE)
    )
    for at, data in connection.execute(query):
        yield at, decode(kind, data)
    for row in head.read(connection, first, last):
        block = row.blocks.get((metric, kind))
        if block is not None:
            yield row.window, block
