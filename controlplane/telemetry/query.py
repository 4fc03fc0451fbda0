"""Adding up blocks into the answer of a query (pure).

Guarantee: integer counts are added exactly; the result does not depend on the order of the blocks, nor on whether a
window was read from a frame or from the head.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.contract.metrics import WINDOW_S, MetricKind
from controlplane.telemetry.frame import HistogramBlock, ScalarBlock
from controlplane.telemetry.grouping import LEFT_OUT, Grouping
from controlplane.telemetry.reader import SketchSeries, ValueSeries
from controlplane.telemetry.sketch import Sketch
from controlplane.telemetry.timespan import EPOCH

MAX_ROWS = 20_000
"""Groups times steps of one answer: 8 kB each."""


def step_number(window: int, step_s: float | None) -> int:
    """Steps count from the epoch, so that two queries with one step cut time at the same places."""
    return 0 if step_s is None else int(window * WINDOW_S // step_s)


def step_start(number: int, step_s: float) -> datetime:
    return EPOCH + timedelta(seconds=number * step_s)


class HistogramSums:
    """One row per (group, step) that has data."""

    def __init__(self, grouping: Grouping, step_s: float | None) -> None:
        self._grouping = grouping
        self._step_s = step_s
        self._rows: dict[tuple[int, int], int] = {}
        self._allocate(16)

    def add(self, window: int, block: HistogramBlock) -> None:
        groups = self._grouping.rows(block.series)
        order = np.argsort(groups, kind="stable")
        order = order[np.searchsorted(groups[order], LEFT_OUT, side="right") :]
        if not len(order):
            return
        present, starts = np.unique(groups[order], return_index=True)
        step = step_number(window, self._step_s)
        rows = [self._row(group, step) for group in present.tolist()]
        columns = slice(block.low, block.low + block.counts.shape[1])
        if len(rows) == 1:
            counts = block.counts if len(order) == len(groups) else block.counts[order]
            self._counts[rows[0], columns] += counts.sum(axis=0, dtype=np.int64)
        else:
            sums = np.add.reduceat(block.counts[order], starts, axis=0, dtype=np.int64)
            self._counts[rows, columns] += sums
        self._zero[rows] += np.add.reduceat(block.zero[order], starts)
        self._total[rows] += np.add.reduceat(block.total[order], starts)
        self._minimum[rows] = np.minimum(self._minimum[rows], np.minimum.reduceat(block.minimum[order], starts))
        self._maximum[rows] = np.maximum(self._maximum[rows], np.maximum.reduceat(block.maximum[order], starts))
        self._error[rows] = np.maximum(self._error[rows], np.maximum.reduceat(block.error[order], starts))

    def series(self) -> list[SketchSeries]:
        """The groups that have data, in the order of their labels."""
        labels = self._grouping.labels()
        found: dict[int, SketchSeries] = {}
        for (group, step), row in sorted(self._rows.items()):
            sketch = self._sketch(row)
            series = found.setdefault(group, SketchSeries(labels[group], Sketch()))
            series.total.merge(sketch)
            if self._step_s is not None:
                series.steps.append((step_start(step, self._step_s), sketch))
        return sorted(found.values(), key=lambda series: tuple(series.labels.values()))

    def _sketch(self, row: int) -> Sketch:
        return Sketch(
            self._counts[row].copy(),
            int(self._zero[row]),
            float(self._total[row]),
            float(self._minimum[row]),
            float(self._maximum[row]),
            max(RELATIVE_ERROR, float(self._error[row])),
        )

    def _row(self, group: int, step: int) -> int:
        row = self._rows.get((group, step))
        if row is None:
            row = self._rows[group, step] = len(self._rows)
            if row >= MAX_ROWS:
                raise BadRequest(
                    f"step: over {MAX_ROWS} groups times steps in one answer; take a longer step, a shorter span, "
                    "or fewer labels in by",
                    field="step",
                )
            if row >= len(self._zero):
                self._grow()
        return row

    def _allocate(self, n: int) -> None:
        self._counts = np.zeros((n, AXIS_LENGTH), np.int64)
        self._zero = np.zeros(n, np.int64)
        self._total = np.zeros(n)
        self._minimum, self._maximum, self._error = np.full(n, np.inf), np.full(n, -np.inf), np.zeros(n)

    def _grow(self) -> None:
        old = (self._counts, self._zero, self._total, self._minimum, self._maximum, self._error)
        n = len(self._zero)
        self._allocate(2 * n)
        new = (self._counts, self._zero, self._total, self._minimum, self._maximum, self._error)
        for before, after in zip(old, new, strict=True):
            after[:n] = before


class ScalarSums:
    """Sums add up; gauges take each series' last value and average over the series of a group."""

    def __init__(self, grouping: Grouping, step_s: float | None, kind: MetricKind) -> None:
        self._grouping = grouping
        self._step_s = step_s
        self._kind = kind
        self._parts: list[tuple[NDArray[np.int64], ...]] = []
        self._values: list[NDArray[np.float64]] = []

    def add(self, window: int, block: ScalarBlock) -> None:
        groups = self._grouping.rows(block.series)
        keep = groups > LEFT_OUT
        steps = np.full(int(keep.sum()), step_number(window, self._step_s), np.int64)
        self._parts.append(
            (groups[keep].astype(np.int64), steps, block.series[keep].astype(np.int64), block.time_ns[keep])
        )
        self._values.append(block.value[keep])

    def series(self) -> list[ValueSeries]:
        if not self._parts:
            return []
        group, step, series, time_ns = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        value = np.concatenate(self._values)
        labels = self._grouping.labels()
        totals = self._reduce([group], series, time_ns, value)
        found = {key[0]: ValueSeries(labels[key[0]], total) for key, total in totals}
        if self._step_s is not None:
            for (number, at), part in self._reduce([group, step], series, time_ns, value):
                found[number].steps.append((step_start(at, self._step_s), part))
        return sorted(found.values(), key=lambda one: tuple(one.labels.values()))

    def _reduce(
        self,
        keys: Sequence[NDArray[np.int64]],
        series: NDArray[np.int64],
        time_ns: NDArray[np.int64],
        value: NDArray[np.float64],
    ) -> list[tuple[tuple[int, ...], float]]:
        """One value per distinct key, in the order of the keys."""
        if self._kind is MetricKind.GAUGE:
            order = np.lexsort((np.arange(len(value)), time_ns, series, *reversed(keys)))
            last = _ends([key[order] for key in (*keys, series)])
            order = order[last]
        else:
            order = np.lexsort(tuple(reversed(keys)))
        if not len(order):
            return []
        ordered = [key[order] for key in keys]
        ends = np.flatnonzero(_ends(ordered))
        starts = np.concatenate([[0], ends[:-1] + 1])
        sums = np.add.reduceat(value[order], starts)
        if self._kind is MetricKind.GAUGE:
            sums = sums / (ends - starts + 1)
        names = zip(*(key[ends].tolist() for key in ordered), strict=True)
        return list(zip(names, sums.tolist(), strict=True))


def _ends(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
    """True at the last row of each run of equal keys."""
    if not len(columns[0]):
        return np.zeros(0, bool)
    changes = np.zeros(len(columns[0]) - 1, bool)
    for column in columns:
        changes |= column[1:] != column[:-1]
    return np.append(changes, True)
