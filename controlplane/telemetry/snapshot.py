"""One state of the database, and what it holds of a metric.

Guarantee: all reads of a snapshot see the same committed state, so that frames and head never both hold a point.
No write lock is taken. Which level and which scope answers does not show in the answer: every level holds exactly the
sum of the finer one, and the fleet's frames that of all nodes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np
from sqlalchemy import Connection

from controlplane.contract.metrics import NODE, MetricKind
from controlplane.db.database import Database
from controlplane.telemetry import extremes, frame
from controlplane.telemetry.block import Block, ScalarBlock
from controlplane.telemetry.columns import Columns, Ints, NumberRows, concatenate
from controlplane.telemetry.frame_store import FrameStore, Moment
from controlplane.telemetry.gather import FLEET, Ragged
from controlplane.telemetry.head import Head
from controlplane.telemetry.levels import BASE_S
from controlplane.telemetry.names import Names
from controlplane.telemetry.plan import plan
from controlplane.telemetry.timespan import windows_in

SMALL_BYTES, SMALL_FRAMES = 4096, 8192
"""Frames that are kept decoded: some 30 MB at most."""
Where = Mapping[str, str | Sequence[str]]


@contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """A connection in a read transaction of its own."""
    with database.engine.connect() as connection:
        if database.is_sqlite:
            yield connection.execution_options(begin="BEGIN")
        else:
            yield connection.execution_options(isolation_level="REPEATABLE READ")


@dataclass(frozen=True)
class Wanted:
    """Of which rows a query is: a metric of a kind in [start, end), and the scope that its labels ask for.

    blocks: None is all nodes; `step_s` as in the query.
    """

    metric: int
    kind: MetricKind
    start: datetime
    end: datetime
    step_s: float | None
    fleet: bool
    blocks: Collection[int] | None


Piece = tuple[Ints, Block]
"""A block, and of each of its rows the second since the epoch at which its window begins."""


def scope(
    connection: Connection, names: Names, kind: MetricKind, by: Sequence[str], where: Where
) -> tuple[bool, Collection[int] | None]:
    """(fleet, blocks): whether the fleet's rows answer, else which blocks of nodes do."""
    given = where.get(NODE.label)
    if given is not None:
        return False, names.blocks_of_nodes(connection, [given] if isinstance(given, str) else given)
    return kind is not MetricKind.GAUGE and NODE.label not in by, None


def pieces(moment: Moment, frames: FrameStore, head: Head, wanted: Wanted) -> Iterator[Piece]:
    """Everything that is wanted: frames first, then what is not folded yet."""
    first, last = windows_in(wanted.start, wanted.end)
    step_s = None if wanted.step_s is None else int(wanted.step_s)
    blocks = [FLEET] if wanted.fleet else wanted.blocks
    for part in plan(moment.state.levels, first, last, step_s):
        for key, data in frames.read(moment, part.resolution, wanted.metric, blocks, part.first, part.last):
            if blocks is None and key.block == FLEET:
                continue
            block = _decode_small(data) if len(data) <= SMALL_BYTES else frame.decode(data)
            yield np.full(len(block), key.window * key.resolution, np.int64), block
    yield from _unfolded(moment.connection, head, wanted, first, last)


@lru_cache(SMALL_FRAMES)
def _decode_small(data: bytes) -> Block:
    """The fleet's frames are small and asked for over and over. Nobody changes a block that was read."""
    return frame.decode(data)


def _unfolded(connection: Connection, head: Head, wanted: Wanted, first: int, last: int) -> Iterator[Piece]:
    rows = head.read(connection, first, last)
    if wanted.fleet:  # Few points in each: all together at once.
        parts = [concatenate([row.fleet for row in rows] or [Columns.empty()])]
    else:
        parts = [row.columns for row in rows]
    for columns in parts:
        if wanted.kind is MetricKind.HISTOGRAM:
            histograms = columns.histograms
            chosen = np.flatnonzero(
                (histograms.metric == wanted.metric) & (histograms.window >= first) & (histograms.window < last)
            )
            if len(chosen):
                read = Ragged(histograms).block(chosen)
                read.minimum, read.maximum = extremes.rounded(read.minimum, read.maximum)  # As once it is folded.
                yield histograms.window[chosen] * BASE_S, read
            continue
        numbers: NumberRows = columns.sums if wanted.kind is MetricKind.SUM else columns.gauges
        chosen = np.flatnonzero((numbers.metric == wanted.metric) & (numbers.window >= first) & (numbers.window < last))
        if len(chosen):
            block = ScalarBlock(numbers.labels[chosen], numbers.value[chosen], numbers.time_ns[chosen], wanted.kind)
            yield numbers.window[chosen] * BASE_S, block
