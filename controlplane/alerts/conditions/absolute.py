"""Absolute limits: a quantile over a window against its limit, and how likely chance alone would do it.

Guarantee: fewer than `min_count` requests decide nothing; a firing alert is called over only at `RESOLVE_AT` of the
limit, so that a value that rests on its limit does not flap.
"""

from dataclasses import dataclass

from controlplane.alerts.conditions.finding import Reading
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.histogram import RELATIVE_ERROR, axis_position
from controlplane.evidence.binomial import tail_bound
from controlplane.evidence.sketch import Sketch

RESOLVE_AT = 0.9


@dataclass(frozen=True)
class Observation:
    """`above` of `count` requests were above the limit; `chance` bounds the probability of that or more by luck."""

    reading: Reading
    count: int
    above: int = 0
    value_s: float | None = None
    chance: float | None = None
    relative_error: float = RELATIVE_ERROR


def judge(sketch: Sketch | None, limit: Limit, *, min_count: int, firing: bool) -> Observation:
    """Read the limit's quantile from the requests of one window."""
    count = 0 if sketch is None else sketch.count
    if sketch is None or count < min_count:
        return Observation(Reading.HOLD, count)
    value = sketch.quantile(limit.q)
    above = sketch.above(axis_position(limit.limit_s))
    chance = tail_bound(above, count, 1.0 - limit.q)
    if value > limit.limit_s:
        reading = Reading.BREACH
    elif firing and value > RESOLVE_AT * limit.limit_s:
        reading = Reading.HOLD
    else:
        reading = Reading.CLEAR
    return Observation(reading, count, above, value, chance, sketch.relative_error)
