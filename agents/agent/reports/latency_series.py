"""One latency series while it is being counted: the hot path's inner loop.

Guarantee: buckets are those of `controlplane.contract.histogram` (scale 5), so a quantile read from them carries that
module's error and no other; a value costs well under a microsecond.
"""

from collections.abc import Sequence
from math import ceil, inf, log2

from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, SCALE, ZERO_THRESHOLD_S, upper_edge

_PER_OCTAVE = 2.0**SCALE
LARGEST_S = upper_edge(AXIS_LENGTH - 1)
"""The end of the axis, 1,024 s: a longer duration counts as this one."""


class Distribution:
    """Counts by bucket index, with count, sum, minimum and maximum. In seconds; below zero counts as zero."""

    __slots__ = ("buckets", "count", "maximum", "minimum", "total", "zero_count")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.zero_count = 0
        self.count = 0
        self.total = 0.0
        self.minimum = inf
        self.maximum = -inf

    def record(self, value: float) -> None:
        """Count one value."""
        if value > LARGEST_S:
            value = LARGEST_S
        if value > ZERO_THRESHOLD_S:
            index = ceil(log2(value) * _PER_OCTAVE) - 1
            buckets = self.buckets
            buckets[index] = buckets.get(index, 0) + 1
        else:
            value = max(value, 0.0)
            self.zero_count += 1
        self.count += 1
        self.total += value
        if value < self.minimum:
            self.minimum = value
        if value > self.maximum:
            self.maximum = value

    def record_all(self, values: Sequence[float]) -> None:
        """Count many values; the same result as `record` on each, cheaper."""
        if not values:
            return
        lowest, highest = min(values), max(values)
        if lowest <= ZERO_THRESHOLD_S or highest > LARGEST_S:
            for value in values:
                self.record(value)
            return
        buckets = self.buckets
        for value in values:
            index = ceil(log2(value) * _PER_OCTAVE) - 1
            buckets[index] = buckets.get(index, 0) + 1
        self.count += len(values)
        self.total += sum(values)
        if lowest < self.minimum:
            self.minimum = lowest
        if highest > self.maximum:
            self.maximum = highest

    def dense(self) -> tuple[int, list[int]]:
        """(offset, counts) of the filled stretch of the axis; (0, []) when there is none."""
        buckets = self.buckets
        if not buckets:
            return 0, []
        low, high = max(min(buckets), AXIS_MIN), max(max(buckets), AXIS_MIN)
        counts = [buckets.get(index, 0) for index in range(low, high + 1)]
        if low == AXIS_MIN:
            # The logarithm of a value just above the threshold is rounded to that of the threshold, one bucket below.
            counts[0] += buckets.get(AXIS_MIN - 1, 0)
        return low, counts
