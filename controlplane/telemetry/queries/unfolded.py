"""What is not folded into frames yet, as one snapshot has it, for queries.

A large fleet has a thousand pending rows, and each holds something of every metric. For the fleet as a whole, runs of
rows that were written one after another are therefore added up once, split by metric and remembered.

Guarantee: of a metric exactly the points of the snapshot's pending rows: a run is remembered by the ids of its rows,
and ids are never used twice.
"""

import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache
from sqlalchemy import Connection

from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.folding.head import Head, PendingColumns
from controlplane.telemetry.frames.block import Block, ScalarBlock
from controlplane.telemetry.frames.fleet_columns import summed
from controlplane.telemetry.frames.gather import Ragged
from controlplane.telemetry.values import extremes
from controlplane.telemetry.values.columns import Columns, Ints, NumberRows, concatenate, nbytes
from controlplane.telemetry.values.levels import BASE_S

RUN = 32
"""Ids of a run: about a second of a fleet of thousands."""
HELD_BYTES = 32 << 20
Run = Mapping[tuple[MetricKind, int], Columns]
"""By kind and metric the rows of that metric."""


class _Held(NamedTuple):
    run: Run
    size: int


class FleetRuns:
    """The runs that were asked for last. Thread-safe."""

    def __init__(self, head: Head, held_bytes: int = HELD_BYTES) -> None:
        self._head = head
        self._lock = threading.Lock()
        self._runs: LRUCache[tuple[int, ...], _Held] = LRUCache(held_bytes, lambda held: held.size)

    def of(self, connection: Connection, ids: Sequence[int]) -> Run:
        """The sum of these pending rows."""
        key = tuple(ids)
        with self._lock:
            held = self._runs.get(key)
            if held is not None:
                return held.run
        rows = concatenate([row.fleet for row in self._head.of_rows(connection, ids)] or [Columns.empty()])
        whole = summed(rows, rows.histograms.labels, rows.sums.labels)
        run = _by_metric(whole)
        held = _Held(run, sum(map(nbytes, run.values())))
        with self._lock, suppress(ValueError):  # One that takes more than all of the room is added up each time.
            self._runs[key] = held
        return held.run

    def keep(self, waiting: Container[int]) -> None:
        """Forget runs with a row that waits no longer: nobody asks for them again."""
        with self._lock:
            for key in [key for key in self._runs if not all(number in waiting for number in key)]:
                del self._runs[key]


class Unfolded:
    """The pending rows of one snapshot that hold points of windows first .. last - 1."""

    def __init__(self, connection: Connection, head: Head, runs: FleetRuns, first: int, last: int) -> None:
        self._connection, self._head, self._runs = connection, head, runs
        self._first, self._last = first, last
        self._ids = head.ids(connection, first, last)
        self._tail: Columns | None = None

    def of_nodes(self, kind: MetricKind, metric: int) -> Iterator[tuple[Ints, Block]]:
        """Of each row of a block the second since the epoch at which its window begins."""
        for row in self._rows(self._ids):
            yield from self._chosen(row.columns, kind, metric)

    def of_fleet(self, kind: MetricKind, metric: int) -> Iterator[tuple[Ints, Block]]:
        """The same with the nodes summed."""
        *runs, newest = ([list(run) for _, run in groupby(self._ids, key=lambda number: number // RUN)]) or [[]]
        found = [self._runs.of(self._connection, run).get((kind, metric)) for run in runs]
        # The newest run still grows.
        if self._tail is None:
            self._tail = concatenate([row.fleet for row in self._rows(newest)] or [Columns.empty()])
        for columns in (concatenate([one for one in found if one is not None] or [Columns.empty()]), self._tail):
            yield from self._chosen(columns, kind, metric)

    def _rows(self, ids: Sequence[int]) -> Iterator[PendingColumns]:
        return self._head.of_rows(self._connection, ids)

    def _chosen(self, columns: Columns, kind: MetricKind, metric: int) -> Iterator[tuple[Ints, Block]]:
        first, last = self._first, self._last
        if kind is MetricKind.HISTOGRAM:
            histograms = columns.histograms
            chosen = np.flatnonzero(
                (histograms.metric == metric) & (histograms.window >= first) & (histograms.window < last)
            )
            if len(chosen):
                read = Ragged(histograms).block(chosen)
                read.minimum, read.maximum = extremes.rounded(read.minimum, read.maximum)  # As once it is folded.
                yield histograms.window[chosen] * BASE_S, read
            return
        numbers: NumberRows = columns.sums if kind is MetricKind.SUM else columns.gauges
        chosen = np.flatnonzero((numbers.metric == metric) & (numbers.window >= first) & (numbers.window < last))
        if len(chosen):
            block = ScalarBlock(numbers.labels[chosen], numbers.value[chosen], numbers.time_ns[chosen], kind)
            yield numbers.window[chosen] * BASE_S, block


def _by_metric(columns: Columns) -> Run:
    found: dict[tuple[MetricKind, int], Columns] = {}
    empty = Columns.empty()
    for metric in np.unique(columns.histograms.metric).tolist():
        histograms = columns.histograms.select(columns.histograms.metric == metric)
        found[MetricKind.HISTOGRAM, metric] = Columns(histograms, empty.sums, empty.gauges)
    for metric in np.unique(columns.sums.metric).tolist():
        sums = columns.sums.select(columns.sums.metric == metric)
        found[MetricKind.SUM, metric] = Columns(empty.histograms, sums, empty.gauges)
    return found
