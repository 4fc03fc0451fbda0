"""An engine's own histogram while a report adds it up, for metrics whose raw values cannot be had.

Guarantee: counts and sum are exact. `lowest` and `highest` bound every value: the edges of the occupied buckets, drawn
in by the sum. With c_i values in the bucket (a_i, b_i], a sum S leaves S - sum(c_i a_i) above the lower edges, so no
value is above its own a by more; and from above in the same way. One value alone is known exactly.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

SLACK = 1e-9
"""Relative: a sum is a difference of two growing sums, rounded; a bound drawn in by it must not cut off a value."""


class BucketCounts:
    """Counts within fixed upper bounds (seconds, ascending), the last count being of what lies above them all."""

    __slots__ = ("bounds", "count", "counts", "highest", "lowest", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        if not bounds or not all(map(math.isfinite, bounds)) or any(high <= low for low, high in pairwise(bounds)):
            raise ValueError(f"bucket bounds must be finite and ascending, got {list(bounds)!r}")
        self.bounds = tuple(float(bound) for bound in bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.count = 0
        self.total = 0.0
        self.lowest = math.inf
        self.highest = -math.inf

    def add(self, counts: Sequence[int], total: float) -> None:
        """Count so many values per bucket, whose sum is `total`. Raises ValueError."""
        if len(counts) != len(self.counts) or any(not isinstance(one, int) or one < 0 for one in counts):
            raise ValueError(f"wants {len(self.counts)} bucket counts of at least 0, got {list(counts)!r}")
        if not math.isfinite(total) or total < 0:
            raise ValueError(f"the sum of durations must be finite and not negative, got {total!r}")
        count = sum(counts)
        if not count:
            return
        for place, amount in enumerate(counts):
            self.counts[place] += amount
        self.count += count
        self.total += total
        lowest, highest = value_bounds(self.bounds, counts, total)
        self.lowest, self.highest = min(self.lowest, lowest), max(self.highest, highest)


def value_bounds(bounds: Sequence[float], counts: Sequence[int], total: float) -> tuple[float, float]:
    """No value is below the first nor above the second; at least one count must be there."""
    lower, upper = (0.0, *bounds), (*bounds, math.inf)
    occupied = [place for place, amount in enumerate(counts) if amount]
    first, last = occupied[0], occupied[-1]
    above = total - math.fsum(counts[place] * lower[place] for place in occupied)
    below = math.fsum(counts[place] * upper[place] for place in occupied) - total
    highest = min(upper[last], lower[last] + max(above, 0.0) + SLACK * total)
    lowest = lower[first] if math.isinf(below) else max(lower[first], upper[first] - max(below, 0.0) - SLACK * total)
    return min(lowest, highest), highest
