"""Adding up blocks of histograms into the answer of a query (pure, but for the look-up of labels that it is handed).

Guarantee: counts are added exactly; the result does not depend on the order of the blocks, nor on whether a window was
read from a frame, of which level, or from the head.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.telemetry.frames.block import Block, HistogramBlock, merge_histograms, narrowest
from controlplane.telemetry.queries.grouping import Grouping, LabelsOf
from controlplane.telemetry.queries.query import Cells, Seconds, group_cells, per_row
from controlplane.telemetry.reader import SketchGroups
from controlplane.telemetry.values.columns import Ints
from controlplane.telemetry.values.sketch_table import SketchTable

MAX_ROWS = 20_000
"""Groups times steps of one answer: 8 kB each."""
CELLS_AT_ONCE = 8_000_000
"""Blocks wait until there are as many buckets, and are then added up together."""
FEW_ROWS = 64
"""Runs of at most so many rows are added up row by row, all runs at once."""
Places = NDArray[np.intp]


class HistogramSums:
    """`add` blocks, then take the `groups`."""

    def __init__(self, grouping: Grouping, labels_of: LabelsOf, step_s: float | None) -> None:
        self._cells = Cells(grouping, labels_of, step_s)
        self._with_steps = step_s is not None
        self._alike: dict[tuple[int, bytes], tuple[int, list[HistogramBlock]]] = {}
        self._others: list[tuple[Ints, HistogramBlock]] = []
        self._size = 0
        self._cell: Ints = np.zeros(0, np.int64)
        self._table = SketchTable.empty()

    def add(self, seconds: Seconds, block: Block) -> None:
        """Rows of a block with ascending labels, or of any where `seconds` is an array."""
        assert isinstance(block, HistogramBlock)
        if not len(block):
            return
        if isinstance(seconds, int):
            # Frames of one block of nodes have the same rows window after window: these are added without sorting.
            key = (self._cells.step(seconds), block.labels.tobytes())
            self._alike.setdefault(key, (seconds, []))[1].append(block)
        else:
            self._others.append((seconds, block))
        self._size += block.counts.size
        if self._size > CELLS_AT_ONCE:
            self._add_up()

    def groups(self) -> SketchGroups:
        self._add_up()
        cells, totals = self._cell, self._table
        if self._with_steps:
            cells, totals = reduced(group_cells(cells), [totals])
        labels = [self._cells.labels(cell) for cell in cells.tolist()]
        order = sorted(range(len(labels)), key=lambda place: tuple(labels[place].values()))
        if order != list(range(len(order))):
            labels = [labels[place] for place in order]
            totals = totals.take(order)
        if not self._with_steps:
            return SketchGroups(labels, totals, (), SketchTable.empty(), [0] * (len(labels) + 1))
        edges = np.append(np.searchsorted(self._cell, cells), len(self._cell)).tolist()
        rows = [row for place in order for row in range(edges[place], edges[place + 1])]
        starts = np.cumsum([0, *(edges[place + 1] - edges[place] for place in order)]).tolist()
        times = [self._cells.start(cell) for cell in self._cell[rows].tolist()]
        return SketchGroups(labels, totals, times, self._table.take(rows), starts)

    def _add_up(self) -> None:
        rows = list(self._others)
        for seconds, blocks in self._alike.values():
            block = blocks[0] if len(blocks) == 1 else merge_histograms(blocks)
            rows.append((per_row(seconds, block), block))
        self._alike.clear()
        self._others = []
        self._size = 0
        if not rows:
            return
        labels = np.concatenate([block.labels for _, block in rows])
        cell = self._cells.of(labels, np.concatenate([seconds for seconds, _ in rows]))
        cells, table = reduced(cell, [block for _, block in rows])
        if len(self._cell):
            cells, table = reduced(np.concatenate([self._cell, cells]), [self._table, table])
        if len(cells) > MAX_ROWS:
            raise BadRequest(
                f"step: over {MAX_ROWS} groups times steps in one answer; take a longer step, a shorter span, "
                "or fewer labels in by",
                field="step",
            )
        self._cell, self._table = cells, table


def reduced(cell: Ints, parts: Sequence[HistogramBlock | SketchTable]) -> tuple[Ints, SketchTable]:
    """The distinct cells, ascending, and the sums of their rows; rows of negative cells are left out.

    cell: int64[n], of all rows of the parts, one part after the other.
    """
    order = np.argsort(cell, kind="stable")
    order = order[np.searchsorted(cell, 0, sorter=order) :]
    if not len(order):
        return np.zeros(0, np.int64), SketchTable.empty()
    ordered = cell[order]
    starts = np.append(0, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
    low, counts = _together(parts)

    def column(name: str) -> NDArray[Any]:
        joined: NDArray[Any] = np.concatenate([getattr(part, name) for part in parts])
        return joined[order]

    return ordered[starts], SketchTable(
        low,
        _sums(counts, order, starts),
        np.add.reduceat(column("zero"), starts),
        np.add.reduceat(column("total"), starts),
        np.minimum.reduceat(column("minimum"), starts),
        np.maximum.reduceat(column("maximum"), starts),
        np.maximum(np.maximum.reduceat(column("error"), starts), RELATIVE_ERROR),
    )


def _together(parts: Sequence[HistogramBlock | SketchTable]) -> tuple[int, NDArray[Any]]:
    """(low, counts) of all rows of parts, one after the other."""
    if len(parts) == 1:
        return parts[0].low, parts[0].counts
    wide = [part for part in parts if part.counts.shape[1]]
    low = min((part.low for part in wide), default=0)
    width = max((part.low + part.counts.shape[1] - low for part in wide), default=0)
    dtype = max((part.counts.dtype for part in parts), key=lambda one: one.itemsize)
    counts = np.zeros((sum(map(len, parts)), width), dtype)
    start = 0
    for part in parts:
        end, left = start + len(part), part.low - low
        if part.counts.shape[1]:
            counts[start:end, left : left + part.counts.shape[1]] = part.counts
        start = end
    return low, counts


def _sums(counts: NDArray[Any], order: Places, starts: Places) -> NDArray[np.int64]:
    """The sums of runs of rows, int64[len(starts), width]."""
    if len(starts) == 1:
        chosen = counts if len(order) == len(counts) else counts[order]
        total: NDArray[np.int64] = chosen.sum(axis=0, dtype=np.int64)
        return total[None]
    lengths = np.diff(np.append(starts, len(order)))
    longest = int(lengths.max())
    sums: NDArray[Any]
    if longest > FEW_ROWS:
        sums = np.add.reduceat(counts[order], starts, axis=0, dtype=np.int64)
        return sums
    sums = counts[order[starts]].astype(narrowest(min(int(counts.max(initial=0)) * longest, 2**64 - 1)))
    for place in range(1, longest):
        if lengths.min() > place:
            np.add(sums, counts[order[starts + place]], out=sums, casting="unsafe")
        else:
            runs = np.flatnonzero(lengths > place)
            sums[runs] += counts[order[starts[runs] + place]].astype(sums.dtype, copy=False)
    return sums.astype(np.int64, copy=False)
