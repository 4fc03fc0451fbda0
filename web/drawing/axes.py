"""Axes: where a value stands between two ends, and at which round values the grid's lines are.

Pure. Times are seconds since 1970; a tick is round on the clocks of the zone that is asked for, also on the day on
which these are put forward or back.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

DAY_S = 86_400
ROUND_S = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(days * DAY_S for days in (1, 2, 7, 14, 28)),
)
"""Distances between a time axis' ticks that a reader of clocks expects."""
_OFFSET_HELD_S = 7 * DAY_S
"""No zone puts its clocks forward and back again within so long."""


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


def whole_steps(start_s: float, end_s: float, step_s: float, first_s: float) -> tuple[float, float]:
    """The span made as long as its steps are, one of which begins at `first_s`: for what counts by steps."""
    origin_s = first_s - step_s * math.ceil((first_s - start_s) / step_s - 1e-9)
    return origin_s, origin_s + step_s * max(1, math.ceil((end_s - origin_s) / step_s - 1e-9))


LEAST = 1e-300
"""What is less is nothing: a fraction of it may not be a number any more."""


def value_ticks(high: float, most: int = 4) -> list[float]:
    """Round values from 0, 1, 2 or 5 times a power of ten apart, the last of which is `high` or the first above it."""
    if not high > LEAST or not math.isfinite(high):
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(high / most))
    distance = next(step * power for step in (1, 2, 5, 10, 20) if step * power * most >= high * (1 - 1e-9))
    count = math.ceil(high / distance * (1 - 1e-9))
    return [place * distance for place in range(count + 1)]


def time_ticks(start_s: float, end_s: float, most: int = 5, zone: tzinfo = UTC) -> list[float]:
    """Moments between the two that are round on the zone's clocks: `most` at the most, and one more where these showed
    the same hour twice."""
    distance = next((step for step in ROUND_S if (end_s - start_s) / step < most), ROUND_S[-1])
    found = [
        float(place * distance - offset_s)
        for offset_s in _offsets_s(start_s, end_s, zone)
        for place in range(math.ceil((start_s + offset_s) / distance), math.floor((end_s + offset_s) / distance) + 1)
        if _offset_s(place * distance - offset_s, zone) == offset_s
    ]
    return sorted(found)


def _offsets_s(start_s: float, end_s: float, zone: tzinfo) -> set[int]:
    """By how much the zone's clocks are before UTC between the two."""
    looks = math.ceil((end_s - start_s) / _OFFSET_HELD_S)
    return {_offset_s(min(start_s + look * _OFFSET_HELD_S, end_s), zone) for look in range(looks + 1)}


def _offset_s(time_s: float, zone: tzinfo) -> int:
    offset = datetime.fromtimestamp(time_s, zone).utcoffset()
    return round(offset.total_seconds()) if offset is not None else 0


def clock_words(time_s: float, span_s: float, zone: tzinfo = UTC) -> str:
    """Of a tick on an axis of `span_s`, on the zone's clocks: with seconds on a short one, the day on a long one."""
    form = "%H:%M:%S" if span_s <= 600 else "%H:%M" if span_s <= DAY_S else "%-d %b %H:%M"
    return datetime.fromtimestamp(time_s, zone).strftime(form)
