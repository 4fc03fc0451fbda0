"""Rows of columns to blocks: sorted by window, metric, block of nodes and labels, ragged buckets made dense (pure).

Guarantee: each row is in exactly one block; rows of one key and one label set are added up (a gauge's latest stays).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.frames.block import (
    Block,
    HistogramBlock,
    ScalarBlock,
    collapse_histograms,
    collapse_scalars,
)
from controlplane.telemetry.frames.frame_store import FrameKey
from controlplane.telemetry.values.columns import Columns, HistogramRows, Ids, Ints, NumberRows
from controlplane.telemetry.values.levels import BASE_S

FLEET = -1
"""The block number of the fleet scope."""
Places = NDArray[np.intp]
BlocksOf = Callable[[Ids], Ids]
"""The block numbers of labels ids."""


class Ragged:
    """Ragged buckets, any rows of which can be had as a matrix, at a memory copy's cost a row."""

    def __init__(self, rows: HistogramRows) -> None:
        margin = np.zeros(AXIS_LENGTH, rows.cells.dtype)
        self._cells = np.concatenate([margin, rows.cells, margin])
        self._width = rows.width.astype(np.int64)
        self._starts: Ints = np.cumsum(self._width) - self._width + AXIS_LENGTH
        self._low = rows.low.astype(np.int64)
        self._columns = {
            name: getattr(rows, name) for name in ("labels", "zero", "total", "minimum", "maximum", "error")
        }

    def sorted(self, order: Places) -> Self:
        """The same rows in another order, in place."""
        self._width, self._starts, self._low = self._width[order], self._starts[order], self._low[order]
        self._columns = {name: column[order] for name, column in self._columns.items()}
        return self

    def dense(self, chosen: Places | slice) -> tuple[int, NDArray[Any]]:
        """(low, counts[rows, width]) of the chosen rows: the first column is axis position `low`."""
        width, place = self._width[chosen], self._low[chosen]
        occupied = width > 0
        if not occupied.any():
            return 0, np.zeros((len(width), 0), self._cells.dtype)
        if not occupied.all():
            place = np.where(occupied, place, place[occupied].min())
        low = int(place.min())
        columns = int((place + width).max()) - low
        if columns % 2:  # An even number of columns is packed without a copy.
            columns += 1
            low = min(low, AXIS_LENGTH - columns)
        left: Ints = place - low
        at: Ints = self._starts[chosen] - left
        counts: NDArray[Any] = self._windows(columns)[at]
        # Beside a row's own cells lie its neighbours': unsigned differences below the width mark what is its own.
        number: Any = np.uint8 if columns < 256 else np.uint16
        own = np.arange(columns, dtype=number) - left.astype(number)[:, None] < width.astype(number)[:, None]
        return low, np.multiply(counts, own, out=counts)

    def _windows(self, columns: int) -> NDArray[Any]:
        """The cells from each place on, without a copy: `sliding_window_view`, at a tenth of its cost."""
        size, n = self._cells.itemsize, len(self._cells)
        return np.ndarray((n - columns + 1, columns), self._cells.dtype, self._cells.data, strides=(size, size))

    def block(self, chosen: Places | slice) -> HistogramBlock:
        """The chosen rows, in the order given."""
        low, counts = self.dense(chosen)
        return HistogramBlock(
            low=low, counts=counts, **{name: column[chosen] for name, column in self._columns.items()}
        )


class _Group(NamedTuple):
    """The rows of one key after sorting, and whether a label set is in it more than once."""

    key: FrameKey
    rows: slice
    repeats: bool


def node_blocks(columns: Columns, blocks: BlocksOf) -> Iterator[tuple[FrameKey, Block]]:
    """All blocks of columns with the store's ids, in windows of the finest level; a key at most once."""
    return _blocks(columns, blocks, (MetricKind.SUM, MetricKind.GAUGE))


def fleet_blocks(columns: Columns) -> Iterator[tuple[FrameKey, Block]]:
    """The same of columns whose labels name no nodes. A gauge is a node's own: it has no fleet block."""
    return _blocks(columns, lambda labels: np.full(len(labels), FLEET, np.int32), (MetricKind.SUM,))


def _blocks(columns: Columns, blocks: BlocksOf, wanted: tuple[MetricKind, ...]) -> Iterator[tuple[FrameKey, Block]]:
    if len(columns.histograms):
        order, groups = _grouped(columns.histograms, blocks)
        ragged = Ragged(columns.histograms).sorted(order)
        for key, rows, repeats in groups:
            histograms = ragged.block(rows)
            yield key, collapse_histograms(histograms) if repeats else histograms
    for kind in wanted:
        numbers = columns.sums if kind is MetricKind.SUM else columns.gauges
        if not len(numbers):
            continue
        order, groups = _grouped(numbers, blocks)
        labels, value = numbers.labels[order], numbers.value[order]
        time_ns = numbers.time_ns[order] if kind is MetricKind.GAUGE else np.zeros(len(order), np.int64)
        for key, rows, repeats in groups:
            scalars = ScalarBlock(labels[rows], value[rows], time_ns[rows], kind)
            yield key, collapse_scalars(scalars) if repeats else scalars


def _grouped(rows: HistogramRows | NumberRows, blocks: BlocksOf) -> tuple[Places, Iterator[_Group]]:
    """The order by window, metric, block and labels (ties as they came), and the groups that lie in it."""
    block = blocks(rows.labels)
    order, starts, distinct = _sorted([rows.window, rows.metric, block, rows.labels])
    first, ends = order[starts], np.append(starts[1:], len(order))
    repeats = np.diff(np.append(np.searchsorted(distinct, starts), len(distinct))) < ends - starts
    columns = (rows.window[first], rows.metric[first], block[first], starts, ends, repeats)
    return order, (
        _Group(FrameKey(BASE_S, metric, number, at), slice(start, end), again)
        for at, metric, number, start, end, again in zip(*(column.tolist() for column in columns), strict=True)
    )


def _sorted(columns: list[NDArray[Any]]) -> tuple[Places, Places, Places]:
    """The stable order by these columns; where runs begin of rows that are equal but for the last one, and in all."""
    lows = [int(column.min()) for column in columns]
    bits = [(int(column.max()) - low).bit_length() for column, low in zip(columns, lows, strict=True)]
    if sum(bits) > 62:
        order: Places = np.lexsort(tuple(reversed(columns)))
        changes = [column[order][1:] != column[order][:-1] for column in columns]
        return order, _begins(np.logical_or.reduce(changes[:-1])), _begins(np.logical_or.reduce(changes))
    packed: Ints = np.zeros(len(columns[0]), np.int64)
    for column, low, size in zip(columns, lows, bits, strict=True):
        packed = packed << size | (column - low)
    order = np.argsort(packed, kind="stable")
    packed = packed[order]
    groups = packed >> bits[-1]
    return order, _begins(groups[1:] != groups[:-1]), _begins(packed[1:] != packed[:-1])


def _begins(changes: NDArray[np.bool_]) -> Places:
    return np.append(0, np.flatnonzero(changes) + 1)
