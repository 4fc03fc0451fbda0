"""What a line does over its span, in one sentence: for who does not see it, and who has no time to look.

Pure. The first third is compared with the last one, each by its median, so that one outlier says nothing.
"""

import math
from dataclasses import dataclass
from statistics import median

from web.drawing.curves import Points
from web.drawing.units import SECONDS, Unit
from web.frame.format import percent

HELD = 0.05
"""Less than this share of a change is none."""
FEWEST = 6
"""Points of which thirds can be made."""


@dataclass(frozen=True)
class Trend:
    """Of one line, in its chart's unit (seconds, as a rule); `change` is a share of `before`, infinite from nothing."""

    before_s: float
    after_s: float

    @property
    def change(self) -> float:
        if self.before_s:
            return self.after_s / self.before_s - 1
        return math.inf if self.after_s else 0.0


def trend_of(points: Points) -> Trend | None:
    """None where there are too few points to compare."""
    if len(points) < FEWEST:
        return None
    third = len(points) // 3
    return Trend(median(value for _, value in points[:third]), median(value for _, value in points[-third:]))


def sentence(name: str, points: Points, unit: Unit = SECONDS) -> str:
    """Such as "p99 rose by 34 %, from 1.20 s to 1.61 s." """
    if not points:
        return "No data in this span."
    trend = trend_of(points)
    if trend is None:
        return f"{name} was {unit.words(points[-1][1])} at last."
    if abs(trend.change) < HELD:
        return f"{name} held at {unit.words(trend.after_s)}."
    verb = "rose" if trend.change > 0 else "fell"
    share = "" if math.isinf(trend.change) else f" by {percent(abs(trend.change))},"
    return f"{name} {verb}{share} from {unit.words(trend.before_s)} to {unit.words(trend.after_s)}."
