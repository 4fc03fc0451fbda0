"""How many values of a sketch lie above a threshold, and how sure that is (pure).

Guarantee: at an edge of the axis the count is exact, so a threshold is moved to the nearest edge, at most 1.1 % away,
and the answer says which. Where a sender's own buckets were wider, `error` is what the share may be off by at most.
"""

import math

from controlplane.contract.bodies.telemetry import Above, Threshold
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, SCALE, ZERO_THRESHOLD_S, is_coarse, upper_edge
from controlplane.evidence.sketch import Sketch

PER_DOUBLING: int = 2**SCALE
LAST_EDGE = AXIS_LENGTH - 2
"""The highest edge with something above it: the last bucket holds whatever is too large for the axis."""


def nearest_edge(seconds: float, field: str) -> int:
    """The position whose upper edge is nearest to a value, -1 for the axis's lower end. Raises `BadRequest`."""
    if not ZERO_THRESHOLD_S <= seconds <= upper_edge(LAST_EDGE):
        raise BadRequest(
            f"{field}: {seconds:g} is not within {ZERO_THRESHOLD_S:.3g} and {upper_edge(LAST_EDGE):.4g} seconds",
            field=field,
        )
    return min(round(math.log2(seconds) * PER_DOUBLING) - 1 - AXIS_MIN, LAST_EDGE)


def threshold(metric: str, asked: float, position: int) -> Threshold:
    return Threshold(metric=metric, asked=asked, edge=upper_edge(position))


def above(sketch: Sketch, position: int) -> Above:
    """Of a sketch that is not empty: how many lie above the upper edge of `position`."""
    count, found = sketch.count, sketch.above(position)
    error = 0.0
    if is_coarse(sketch.relative_error):
        # A value may lie anywhere in its sender's bucket, whose ends are this many of our buckets apart.
        reach = math.ceil(math.log2(1.0 + sketch.relative_error) * PER_DOUBLING)
        least = sketch.above(min(position + reach, AXIS_LENGTH - 1))
        most = count if position - reach < -1 else sketch.above(position - reach)
        error = max(most - found, found - least) / count
    return Above(count=count, above=found, share=found / count, error=error)
