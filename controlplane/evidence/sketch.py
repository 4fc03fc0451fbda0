"""A latency histogram on the contract's fixed axis, as a numpy array.

Guarantee: counts above a bucket edge are exact and stay exact under merge; a quantile is off by at most
`histogram.RELATIVE_ERROR` (see controlplane.contract.histogram). Where a sender's own buckets were wider than the
axis's, both are only as good as `relative_error` says, which is the worst of all that was merged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, BASE, RELATIVE_ERROR, upper_edge

Counts = NDArray[np.int64]


def _no_counts() -> Counts:
    return np.zeros(AXIS_LENGTH, dtype=np.int64)


@dataclass
class Sketch:
    """counts: int64[AXIS_LENGTH]; the rest as in an OTLP exponential histogram point. Values in the metric's unit."""

    counts: Counts = field(default_factory=_no_counts)
    zero_count: int = 0
    total: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf
    relative_error: float = RELATIVE_ERROR

    @property
    def count(self) -> int:
        return self.zero_count + int(self.counts.sum())

    @property
    def mean(self) -> float | None:
        count = self.count
        return self.total / count if count else None

    def merge(self, other: Sketch) -> None:
        """Add `other` into this one."""
        self.counts += other.counts
        self.zero_count += other.zero_count
        self.total += other.total
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        self.relative_error = max(self.relative_error, other.relative_error)

    def above(self, position: int) -> int:
        """How many values lie above the upper edge of the bucket at `position` of the axis. Exact."""
        return int(self.counts[position + 1 :].sum())

    def quantile(self, q: float) -> float:
        """As `controlplane.contract.histogram.quantile`. Raises ValueError when empty."""
        return self.quantiles([q])[0]

    def quantiles(self, wanted: Sequence[float]) -> list[float]:
        """Several quantiles, in the order asked. Raises ValueError when empty."""
        cumulative = np.cumsum(self.counts)
        cumulative += self.zero_count
        total = int(cumulative[-1])
        if total == 0:
            raise ValueError("a quantile of no values")
        last = int(cumulative.searchsorted(total))
        low = self.minimum if math.isfinite(self.minimum) else 0.0
        high = self.maximum if math.isfinite(self.maximum) else upper_edge(AXIS_LENGTH - 1)
        found = []
        for q in wanted:
            if not 0.0 <= q <= 1.0:
                raise ValueError(f"q must be within 0 and 1, got {q}")
            rank = q * (total - 1)
            if rank < self.zero_count or self.zero_count == total:
                found.append(min(max(0.0, low), high))
                continue
            # Of more values than a float tells apart the rank may be rounded to one beyond the last.
            position = min(int(cumulative.searchsorted(rank, side="right")), last)
            inside = int(self.counts[position])
            below = int(cumulative[position]) - inside
            value: float = BASE ** (position + AXIS_MIN + min((rank - below + 0.5) / inside, 1.0))
            found.append(min(max(value, low), high))
        return found
