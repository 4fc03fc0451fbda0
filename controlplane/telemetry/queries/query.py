"""Adding up blocks of numbers into the answer of a query (pure, but for the look-up of labels that it is handed).

Guarantee: integer counts are added exactly; the result does not depend on the order of the blocks, nor on whether a
window was read from a frame, of which level, or from the head.
"""

from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.frames.block import Block, HistogramBlock, ScalarBlock
from controlplane.telemetry.queries.grouping import LEFT_OUT, Grouping, LabelsOf
from controlplane.telemetry.question import Cost, Free
from controlplane.telemetry.reader import ValueSeries
from controlplane.telemetry.values.columns import Floats, Ids, Ints
from controlplane.telemetry.values.timespan import EPOCH

Seconds = Ints | int
"""Of each row of a block the second since the epoch at which its window begins; one number where it is the same."""
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

    def step(self, second: int) -> int:
        """The number of the step that a second lies in."""
        return 0 if self._step_s is None else second // self._step_s


def group_cells(cells: Ints) -> Ints:
    """Of each cell the first one that its group may have."""
    return cells >> _STEP_BITS << _STEP_BITS


class ScalarSums:
    """Sums add up; gauges take each label set's last value and average over the label sets of a group."""

    def __init__(
        self,
        grouping: Grouping,
        labels_of: LabelsOf,
        step_s: float | None,
        kind: MetricKind,
        cost: Cost | None = None,
    ) -> None:
        self._cells = Cells(grouping, labels_of, step_s)
        self._with_steps = step_s is not None
        self._kind = kind
        self._cost = cost or Free()
        self._parts: list[tuple[Ints, ScalarBlock]] = []

    def add(self, seconds: Seconds, block: Block) -> None:
        assert isinstance(block, ScalarBlock)
        self._parts.append((per_row(seconds, block), block))

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
        group = group_cells(cell)
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
        self._cost.made(len(starts))
        sums = np.add.reduceat(value[order], starts)
        if self._kind is MetricKind.GAUGE:
            sums = sums / np.diff(np.append(starts, len(order)))
        return list(zip(ordered[starts].tolist(), sums.tolist(), strict=True))


def per_row(seconds: Seconds, block: Block) -> Ints:
    return np.full(len(block), seconds, np.int64) if isinstance(seconds, int) else seconds


def _ends(column: NDArray[Any]) -> NDArray[np.bool_]:
    """True at the last row of each run of equal values."""
    return np.append(column[1:] != column[:-1], True)


class CountSums(ScalarSums):
    """How many values histograms hold, as of a sum, without their buckets. Exact up to 2**53."""

    def __init__(self, grouping: Grouping, labels_of: LabelsOf, step_s: float | None, cost: Cost | None = None) -> None:
        super().__init__(grouping, labels_of, step_s, MetricKind.SUM, cost)

    def add(self, seconds: Seconds, block: Block) -> None:
        assert isinstance(block, HistogramBlock)
        values = block.counts.sum(axis=1, dtype=np.int64) + block.zero
        super().add(seconds, ScalarBlock(block.labels, values.astype(float), np.zeros_like(values), MetricKind.SUM))
