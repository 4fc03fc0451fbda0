"""Adding up blocks into the answer of a query (pure, but for the look-up of labels that it is handed).

Guarantee: integer counts are added exactly; the result does not depend on the order of the blocks, nor on whether a
window was read from a frame, of which level, or from the head.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.block import Block, HistogramBlock, ScalarBlock
from controlplane.telemetry.columns import Floats, Ids, Ints
from controlplane.telemetry.grouping import LEFT_OUT, Grouping, LabelsOf
from controlplane.telemetry.reader import SketchSeries, ValueSeries
from controlplane.telemetry.sketch import Sketch
from controlplane.telemetry.timespan import EPOCH

MAX_ROWS = 20_000
"""Groups times steps of one answer: 8 kB each."""
CELLS_AT_ONCE = 8_000_000
"""Blocks wait until there are as many buckets, and are then added up together."""
_STEP_BITS = 40
_STEP_MASK = (1 << _STEP_BITS) - 1


def step_start(number: int, step_s: float) -> datetime:
    """Steps count from the epoch, so that two queries with one step cut time at the same places."""
    return EPOCH + timedelta(seconds=number * step_s)


class Cells:
    """The (group, step) of rows as one number; rows that are filtered out have a negative one."""

    def __init__(self, grouping: Grouping, labels_of: LabelsOf, step_s: float | None) -> None:
        self._grouping = grouping
        self._labels_of = labels_of
        self._step_s = None if step_s is None else int(step_s)

    def of(self, labels: Ids, seconds: Ints) -> Ints:
        groups = self._grouping.rows(labels, self._labels_of).astype(np.int64)
        if self._step_s is None:
            return groups << _STEP_BITS
        return (groups << _STEP_BITS) + np.where(groups == LEFT_OUT, 0, seconds // self._step_s)

    def labels(self, cell: int) -> dict[str, str]:
        return self._grouping.labels(cell >> _STEP_BITS)

    def start(self, cell: int) -> datetime:
        return step_start(cell & _STEP_MASK, self._step_s or 0)

    @staticmethod
    def by_group(cells: Sequence[int]) -> dict[int, list[int]]:
        """Cells, ascending, by their group."""
        found: dict[int, list[int]] = {}
        for cell in cells:
            found.setdefault(cell >> _STEP_BITS, []).append(cell)
        return found


class HistogramSums:
    """One row per (group, step) that has data."""

    def __init__(self, grouping: Grouping, labels_of: LabelsOf, step_s: float | None) -> None:
        self._cells = Cells(grouping, labels_of, step_s)
        self._with_steps = step_s is not None
        self._waiting: list[tuple[Ints, HistogramBlock]] = []
        self._size = 0
        self._rows: dict[int, int] = {}
        self._counts: NDArray[np.int64] = np.zeros((0, AXIS_LENGTH), np.int64)
        self._zero: Ints = np.zeros(0, np.int64)
        self._total: Floats = np.zeros(0)
        self._minimum: Floats = np.zeros(0)
        self._maximum: Floats = np.zeros(0)
        self._error: Floats = np.zeros(0)

    def add(self, seconds: Ints, block: Block) -> None:
        """Rows of a block, each with the second since the epoch at which its window begins."""
        assert isinstance(block, HistogramBlock)
        if not len(block):
            return
        self._waiting.append((seconds, block))
        self._size += block.counts.size
        if self._size > CELLS_AT_ONCE:
            self._add_up()

    def series(self) -> list[SketchSeries]:
        """The groups that have data, in the order of their labels."""
        self._add_up()
        found = []
        for cells in self._cells.by_group(sorted(self._rows)).values():
            labels = self._cells.labels(cells[0])
            if self._with_steps:
                steps = [(self._cells.start(cell), self._sketch(self._rows[cell])) for cell in cells]
                found.append(SketchSeries(labels, self._total_of([self._rows[cell] for cell in cells]), steps))
            else:
                found.append(SketchSeries(labels, self._sketch(self._rows[cells[0]])))
        return sorted(found, key=lambda series: tuple(series.labels.values()))

    def _add_up(self) -> None:
        if not self._waiting:
            return
        labels = np.concatenate([block.labels for _, block in self._waiting])
        cell = self._cells.of(labels, np.concatenate([seconds for seconds, _ in self._waiting]))
        order = np.argsort(cell, kind="stable")
        order = order[np.searchsorted(cell, 0, sorter=order) :]
        if len(order):
            ordered = cell[order]
            starts = np.append(0, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
            rows = self._rows_of(ordered[starts].tolist())
            low, counts = _together([block for _, block in self._waiting])
            self._counts[rows, low : low + counts.shape[1]] += _sums(counts, order, starts)

            def column(name: str) -> NDArray[Any]:
                joined: NDArray[Any] = np.concatenate([getattr(block, name) for _, block in self._waiting])
                return joined[order]

            self._zero[rows] += np.add.reduceat(column("zero"), starts)
            self._total[rows] += np.add.reduceat(column("total"), starts)
            self._minimum[rows] = np.minimum(self._minimum[rows], np.minimum.reduceat(column("minimum"), starts))
            self._maximum[rows] = np.maximum(self._maximum[rows], np.maximum.reduceat(column("maximum"), starts))
            self._error[rows] = np.maximum(self._error[rows], np.maximum.reduceat(column("error"), starts))
        self._waiting.clear()
        self._size = 0

    def _rows_of(self, cells: list[int]) -> list[int]:
        """The rows of distinct cells, made where they are missing."""
        rows = [self._rows.setdefault(cell, len(self._rows)) for cell in cells]
        if len(self._rows) > MAX_ROWS:
            raise BadRequest(
                f"step: over {MAX_ROWS} groups times steps in one answer; take a longer step, a shorter span, "
                "or fewer labels in by",
                field="step",
            )
        more = len(self._rows) - len(self._zero)
        if more > 0:
            more = max(more, len(self._zero))
            self._counts = np.concatenate([self._counts, np.zeros((more, AXIS_LENGTH), np.int64)])
            self._zero = np.append(self._zero, np.zeros(more, np.int64))
            self._total = np.append(self._total, np.zeros(more))
            self._minimum = np.append(self._minimum, np.full(more, np.inf))
            self._maximum = np.append(self._maximum, np.full(more, -np.inf))
            self._error = np.append(self._error, np.full(more, RELATIVE_ERROR))
        return rows

    def _sketch(self, row: int) -> Sketch:
        return Sketch(
            self._counts[row],
            int(self._zero[row]),
            float(self._total[row]),
            float(self._minimum[row]),
            float(self._maximum[row]),
            float(self._error[row]),
        )

    def _total_of(self, rows: list[int]) -> Sketch:
        return Sketch(
            self._counts[rows].sum(axis=0),
            int(self._zero[rows].sum()),
            float(self._total[rows].sum()),
            float(self._minimum[rows].min()),
            float(self._maximum[rows].max()),
            float(self._error[rows].max()),
        )


class ScalarSums:
    """Sums add up; gauges take each label set's last value and average over the label sets of a group."""

    def __init__(self, grouping: Grouping, labels_of: LabelsOf, step_s: float | None, kind: MetricKind) -> None:
        self._cells = Cells(grouping, labels_of, step_s)
        self._with_steps = step_s is not None
        self._kind = kind
        self._parts: list[tuple[Ints, ScalarBlock]] = []

    def add(self, seconds: Ints, block: Block) -> None:
        """Rows of a block, each with the second since the epoch at which its window begins."""
        assert isinstance(block, ScalarBlock)
        self._parts.append((seconds, block))

    def series(self) -> list[ValueSeries]:
        """The groups that have data, in the order of their labels."""
        if not self._parts:
            return []
        seconds = np.concatenate([one for one, _ in self._parts])
        labels = np.concatenate([block.labels for _, block in self._parts])
        value = np.concatenate([block.value for _, block in self._parts])
        time_ns = np.concatenate([block.time_ns for _, block in self._parts])
        cell = self._cells.of(labels, seconds)
        keep = cell >= 0
        cell, labels, value, time_ns = cell[keep], labels[keep], value[keep], time_ns[keep]
        group = cell >> _STEP_BITS << _STEP_BITS
        found = {
            key: ValueSeries(self._cells.labels(key), total)
            for key, total in self._reduce(group, labels, time_ns, value)
        }
        if self._with_steps:
            for key, part in self._reduce(cell, labels, time_ns, value):
                found[key >> _STEP_BITS << _STEP_BITS].steps.append((self._cells.start(key), part))
        return sorted(found.values(), key=lambda one: tuple(one.labels.values()))

    def _reduce(self, cell: Ints, labels: Ids, time_ns: Ints, value: Floats) -> list[tuple[int, float]]:
        """One value per distinct cell, ascending."""
        if not len(cell):
            return []
        if self._kind is MetricKind.GAUGE:
            order = np.lexsort((np.arange(len(cell)), time_ns, labels, cell))
            order = order[_ends(cell[order]) | _ends(labels[order])]
        else:
            order = np.argsort(cell, kind="stable")
        ordered = cell[order]
        starts = np.append(0, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
        sums = np.add.reduceat(value[order], starts)
        if self._kind is MetricKind.GAUGE:
            sums = sums / np.diff(np.append(starts, len(order)))
        return list(zip(ordered[starts].tolist(), sums.tolist(), strict=True))


def _together(blocks: Sequence[HistogramBlock]) -> tuple[int, NDArray[Any]]:
    """(low, counts) of all rows of blocks, one after the other."""
    if len(blocks) == 1:
        return blocks[0].low, blocks[0].counts
    wide = [block for block in blocks if block.counts.shape[1]]
    low = min((block.low for block in wide), default=0)
    width = max((block.low + block.counts.shape[1] - low for block in wide), default=0)
    dtype = max((block.counts.dtype for block in blocks), key=lambda one: one.itemsize)
    counts = np.zeros((sum(map(len, blocks)), width), dtype)
    start = 0
    for block in blocks:
        counts[start : start + len(block), block.low - low : block.low - low + block.counts.shape[1]] = block.counts
        start += len(block)
    return low, counts


def _sums(counts: NDArray[Any], order: NDArray[np.intp], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    """The sums of runs of rows, int64[len(starts), width]."""
    if len(starts) == 1:
        chosen = counts if len(order) == len(counts) else counts[order]
        total: NDArray[np.int64] = chosen.sum(axis=0, dtype=np.int64)
        return total[None]
    sums: NDArray[np.int64] = np.add.reduceat(counts[order], starts, axis=0, dtype=np.int64)
    return sums


def _ends(column: NDArray[Any]) -> NDArray[np.bool_]:
    """True at the last row of each run of equal values."""
    return np.append(column[1:] != column[:-1], True)
