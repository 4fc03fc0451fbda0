"""Points as columns: what a report becomes before it is written, and what the log holds until it is folded.

Histograms are ragged: `cells` holds the buckets of one histogram after the other, `width` of each, the first at axis
position `low`. `metric` and `labels` are numbers: places in a report's own `Table` at first, the store's ids
(`controlplane.telemetry.journal.names`) once the names have been looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.metrics import MetricKind

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
ARRAY_BYTES = 128
"""Of an array beside its content, and its place in an object."""


@dataclass(frozen=True, eq=False)
class Table:
    """The names of a report: metrics as (name on the wire, kind), and label sets as canonical JSON. Shared, cached."""

    metrics: tuple[tuple[str, MetricKind], ...]
    labels: tuple[str, ...]


@dataclass(eq=False)
class HistogramRows:
    """n histograms. window: of `metrics.WINDOW_S` since the epoch; error: relative error of a quantile."""

    window: Ints
    metric: Ids
    labels: Ids
    low: Ids
    width: Ids
    cells: NDArray[Any]  # unsigned[width.sum()]
    zero: Ints
    total: Floats
    minimum: Floats
    maximum: Floats
    error: Floats

    def __len__(self) -> int:
        return len(self.window)

    @classmethod
    def empty(cls) -> Self:
        ints, ids, floats = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)
        return cls(ints, ids, ids, ids, ids, np.zeros(0, np.uint8), ints, floats, floats, floats, floats)

    def select(self, keep: Mask) -> Self:
        """The rows where `keep` is true."""
        chosen = {f.name: getattr(self, f.name)[keep] for f in fields(self) if f.name != "cells"}
        return replace(self, **chosen, cells=self.cells[np.repeat(keep, self.width)])


@dataclass(eq=False)
class NumberRows:
    """n sums or gauges; time_ns: the instant of a gauge, the end of a sum's span."""

    window: Ints
    metric: Ids
    labels: Ids
    value: Floats
    time_ns: Ints

    def __len__(self) -> int:
        return len(self.window)

    @classmethod
    def empty(cls) -> Self:
        ints, ids = np.zeros(0, np.int64), np.zeros(0, np.int32)
        return cls(ints, ids, ids, np.zeros(0), ints)

    def select(self, keep: Mask) -> Self:
        """The rows where `keep` is true."""
        return replace(self, **{f.name: getattr(self, f.name)[keep] for f in fields(self)})


@dataclass(eq=False)
class Columns:
    """The points of one report, or of several together."""

    histograms: HistogramRows
    sums: NumberRows
    gauges: NumberRows

    def __len__(self) -> int:
        return len(self.histograms) + len(self.sums) + len(self.gauges)

    @classmethod
    def empty(cls) -> Self:
        return cls(HistogramRows.empty(), NumberRows.empty(), NumberRows.empty())


R = TypeVar("R", HistogramRows, NumberRows)


def concatenate(parts: Sequence[Columns]) -> Columns:
    """All rows, in order; the numbers of `metric` and `labels` must mean the same in all parts."""
    if len(parts) == 1:
        return parts[0]
    return Columns(
        _joined(HistogramRows, [part.histograms for part in parts]),
        _joined(NumberRows, [part.sums for part in parts]),
        _joined(NumberRows, [part.gauges for part in parts]),
    )


def nbytes(columns: Columns) -> int:
    """What it takes in memory, about: with few rows most of it is the arrays themselves."""
    rows = (columns.histograms, columns.sums, columns.gauges)
    return sum(getattr(kind, f.name).nbytes + ARRAY_BYTES for kind in rows for f in fields(kind))


def _joined(kind: type[R], parts: Sequence[R]) -> R:
    filled = [part for part in parts if len(part)]
    if not filled:
        return kind.empty()
    return kind(**{f.name: np.concatenate([getattr(part, f.name) for part in filled]) for f in fields(kind)})
