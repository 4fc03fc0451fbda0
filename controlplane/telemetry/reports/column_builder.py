"""Rows one at a time, or many at once, to one report's `Columns`, its `Table` and who its points are."""

import threading
from contextlib import suppress
from typing import Any

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from controlplane.contract.metrics import WINDOW_NS, MetricKind
from controlplane.telemetry.otlp.histogram_point import AxisPoint
from controlplane.telemetry.reports.repeat import PointIdentities
from controlplane.telemetry.values.columns import Columns, HistogramRows, NumberRows, Table
from controlplane.telemetry.values.timespan import window_of

REMEMBERED_BYTES = 192 << 20
"""Of tables in memory, as `_held_bytes` reckons: some 20 kB of a node with 60 metrics and 20 label sets."""
_OBJECTS_BYTES, _METRIC_BYTES, _TEXT_BYTES = 2048, 200, 64
"""Of a table however little is in it, of each metric, and of a text beside its characters."""
_CELLS = (np.uint8, np.uint16, np.uint32, np.uint64)


Identity = tuple[int, int, int, int]
"""Who a point is: resource, start_ns, end_ns, key. `PointIdentities` holds many."""


class TableCache:
    """One `Table` object for equal tables, so that what is known of a table is found by the object. Thread-safe."""

    def __init__(self, held_bytes: int = REMEMBERED_BYTES) -> None:
        self._lock = threading.Lock()
        self._found: LRUCache[tuple[Any, ...], Table] = LRUCache(held_bytes, _held_bytes)

    def of(self, metrics: tuple[tuple[str, MetricKind], ...], labels: tuple[str, ...]) -> Table:
        with self._lock:
            try:
                return self._found[metrics, labels]
            except KeyError:
                table = Table(metrics, labels)
                with suppress(ValueError):  # One that takes more than all of the room is made each time.
                    self._found[metrics, labels] = table
                return table


def _held_bytes(table: Table) -> int:
    """What a table and its ids take in memory, about."""
    texts = sum(len(text) + _TEXT_BYTES for text in table.labels)
    return _OBJECTS_BYTES + _METRIC_BYTES * len(table.metrics) + texts


class ColumnBuilder:
    """Add points, then take `columns`, `identities` and `table` once."""

    def __init__(self) -> None:
        self._metrics: dict[tuple[str, MetricKind], int] = {}
        self._labels: dict[str, int] = {}
        self._histograms: list[tuple[int, int, int, AxisPoint]] = []
        self._sums: list[tuple[int, int, float, int]] = []
        self._gauges: list[tuple[int, int, float, int]] = []
        self._of_histograms: list[Identity] = []
        self._of_sums: list[Identity] = []
        self._of_gauges: list[Identity] = []
        self._many: tuple[HistogramRows, PointIdentities] | None = None

    def metric(self, name: str, kind: MetricKind) -> int:
        """The metric's place in the table."""
        return self._metrics.setdefault((name, kind), len(self._metrics))

    def labels(self, labels: str) -> int:
        """The label set's place in the table."""
        return self._labels.setdefault(labels, len(self._labels))

    def histogram(self, metric: int, labels: int, point: AxisPoint, identity: Identity) -> None:
        self._histograms.append((window_of(identity[2]), metric, labels, point))
        self._of_histograms.append(identity)

    def number(self, kind: MetricKind, metric: int, labels: int, value: float, identity: Identity) -> None:
        is_sum = kind is MetricKind.SUM
        (self._sums if is_sum else self._gauges).append((metric, labels, value, identity[2]))
        (self._of_sums if is_sum else self._of_gauges).append(identity)

    def histograms(self, rows: HistogramRows, identities: PointIdentities) -> None:
        """Many at once; to be called at most once."""
        assert self._many is None
        self._many = (rows, identities)

    def table(self, cache: TableCache) -> Table:
        return cache.of(tuple(self._metrics), tuple(self._labels))

    def columns(self) -> Columns:
        rows = histogram_rows(self._histograms)
        if self._many is not None:
            rows = _after(self._many[0], rows)
        return Columns(rows, _numbers(self._sums), _numbers(self._gauges))

    def identities(self) -> PointIdentities:
        """Of the rows of `columns`: histograms, sums, gauges."""
        listed = [*self._of_histograms, *self._of_sums, *self._of_gauges]
        ints = np.array(listed, np.int64).reshape(len(listed), 4).T
        if self._many is None:
            return PointIdentities(*ints)
        many = self._many[1]
        first = (many.resource, many.start_ns, many.end_ns, many.key)
        return PointIdentities(*(np.concatenate(pair) for pair in zip(first, ints, strict=True)))


def histogram_rows(points: list[tuple[int, int, int, AxisPoint]]) -> HistogramRows:
    """Of (window, metric, labels, point)."""
    if not points:
        return HistogramRows.empty()
    windows, metrics, labels, found = zip(*points, strict=True)
    lows, counts, zeros, totals, minima, maxima, errors = zip(*found, strict=True)
    cells = [count for row in counts for count in row]
    largest = max(cells, default=0)
    return HistogramRows(
        np.array(windows, np.int64),
        np.array(metrics, np.int32),
        np.array(labels, np.int32),
        np.array(lows, np.int32),
        np.array([len(row) for row in counts], np.int32),
        np.array(cells, cell_type(largest)),
        np.array(zeros, np.int64),
        np.array(totals, float),
        np.array(minima, float),
        np.array(maxima, float),
        np.array(errors, float),
    )


def cell_type(largest: int) -> Any:
    """The narrowest unsigned type that holds a count."""
    return next(kind for kind in _CELLS if largest <= np.iinfo(kind).max)


def _after(first: HistogramRows, second: HistogramRows) -> HistogramRows:
    if not len(second):
        return first
    joined: dict[str, NDArray[Any]] = {
        name: np.concatenate([getattr(first, name), column]) for name, column in vars(second).items()
    }
    return HistogramRows(**joined)


def _numbers(rows: list[tuple[int, int, float, int]]) -> NumberRows:
    if not rows:
        return NumberRows.empty()
    metrics, labels, values, times = zip(*rows, strict=True)
    time_ns = np.array(times, np.int64)
    return NumberRows(
        (time_ns - 1) // WINDOW_NS,
        np.array(metrics, np.int32),
        np.array(labels, np.int32),
        np.array(values, float),
        time_ns,
    )
