"""Sketches as the rows of a table, for answers of hundreds of them at once (pure).

Guarantee: counts are exact, and `quantiles` of a row are those of its `Sketch`, to the bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, BASE, upper_edge
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.values.columns import Floats, Ints


@dataclass(eq=False)
class SketchTable:
    """counts: int64[n, width], columns at axis positions low .. low + width - 1; the others as in `Sketch`, by row."""

    low: int
    counts: NDArray[np.int64]
    zero: Ints
    total: Floats
    minimum: Floats
    maximum: Floats
    error: Floats

    def __len__(self) -> int:
        return len(self.zero)

    @classmethod
    def empty(cls) -> Self:
        ints, floats = np.zeros(0, np.int64), np.zeros(0)
        return cls(0, np.zeros((0, 0), np.int64), ints, floats, floats, floats, floats)

    def count(self) -> Ints:
        """How many values are behind each row."""
        found: Ints = self.zero + self.counts.sum(axis=1)
        return found

    def take(self, rows: Sequence[int]) -> "SketchTable":
        """These rows, in this order."""
        return SketchTable(
            self.low,
            self.counts[rows],
            self.zero[rows],
            self.total[rows],
            self.minimum[rows],
            self.maximum[rows],
            self.error[rows],
        )

    def sketches(self) -> list[Sketch]:
        counts = np.zeros((len(self), AXIS_LENGTH), np.int64)
        counts[:, self.low : self.low + self.counts.shape[1]] = self.counts
        columns = (self.zero, self.total, self.minimum, self.maximum, self.error)
        return list(map(Sketch, counts, *(column.tolist() for column in columns)))

    def quantiles(self, wanted: Sequence[float]) -> list[list[float]]:
        """Of each row the quantiles, in the order asked. Raises ValueError where a row is empty."""
        for q in wanted:
            if not 0.0 <= q <= 1.0:
                raise ValueError(f"q must be within 0 and 1, got {q}")
        cumulative = np.cumsum(self.counts, axis=1)
        cumulative += self.zero[:, None]
        total = cumulative[:, -1] if cumulative.shape[1] else self.zero
        if not total.all():
            raise ValueError("a quantile of no values")
        low = np.where(np.isfinite(self.minimum), self.minimum, 0.0).tolist()
        high = np.where(np.isfinite(self.maximum), self.maximum, upper_edge(AXIS_LENGTH - 1)).tolist()
        last = (cumulative < total[:, None]).sum(axis=1)
        found = [self._quantiles(q, cumulative, total, last, low, high) for q in wanted]
        return [list(row) for row in zip(*found, strict=True)]

    def _quantiles(
        self, q: float, cumulative: Ints, total: Ints, last: NDArray[Any], low: list[float], high: list[float]
    ) -> list[float]:
        rank: Floats = np.multiply(q, total - 1, dtype=np.float64)
        is_zero = (rank < self.zero) | (self.zero == total)
        exponent = np.zeros(len(self))
        rows = np.flatnonzero(~is_zero)
        if len(rows):
            # As `searchsorted` on each row: how many buckets end at or below the rank.
            place = np.minimum((cumulative[rows] <= rank[rows, None]).sum(axis=1), last[rows])
            inside = self.counts[rows, place]
            below = cumulative[rows, place] - inside
            exponent[rows] = place + (self.low + AXIS_MIN) + np.minimum((rank[rows] - below + 0.5) / inside, 1.0)
        # The power by Python itself: numpy's may differ in the last bit.
        return [
            min(max(0.0 if zero else BASE**power, least), most)
            for zero, power, least, most in zip(is_zero.tolist(), exponent.tolist(), low, high, strict=True)
        ]
