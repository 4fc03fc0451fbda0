"""Axes: where a value stands between two ends, and at which round values the grid's lines are.

Pure. Times are seconds since 1970, UTC.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime

ROUND_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
"""Distances between a time axis' ticks that a reader of clocks expects."""


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, drawn over `length` units from `start`; a negative length runs backwards."""

    low: float
    high: float
    start: float = 0.0
    length: float = 1.0

    def at(self, value: float) -> float:
        """Where `value` stands. One beyond the ends stands beyond them, too."""
        width = self.high - self.low
        return self.start + self.length * ((value - self.low) / width if width else 0.5)


def value_ticks(high: float, most: int = 4) -> list[float]:
    """Round values from 0, 1, 2 or 5 times a power of ten apart, the last of which is `high` or the first above it."""
    if not high > 0 or not math.isfinite(high):
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(high / most))
    distance = next(step * power for step in (1, 2, 5, 10, 20) if step * power * most >= high * (1 - 1e-9))
    count = math.ceil(high / distance * (1 - 1e-9))
    return [place * distance for place in range(count + 1)]


def time_ticks(start_s: float, end_s: float, most: int = 5) -> list[float]:
    """Moments between the two that are round on the clock in UTC, `most` at the most."""
    distance = next((step for step in ROUND_S if (end_s - start_s) / step < most), ROUND_S[-1])
    first = math.ceil(start_s / distance)
    return [float(place * distance) for place in range(first, math.floor(end_s / distance) + 1)][:most]


def clock_words(time_s: float, span_s: float) -> str:
    """Of a tick on an axis of `span_s`: with seconds on a short one."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%H:%M:%S" if span_s <= 600 else "%H:%M")
