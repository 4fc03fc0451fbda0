"""One OTLP histogram point, exponential or with explicit bounds, to the values of a `point.Point`.

Guarantee: what is returned is consistent in itself: the counts add up to the point's count, and minimum and maximum lie
in occupied buckets. Everything else raises `Refused`. Wider buckets than the axis's are kept with a warning.
"""

import math
from itertools import pairwise
from typing import Any, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import ExponentialHistogramDataPoint, HistogramDataPoint

from controlplane.contract.histogram import AXIS_MAX, AXIS_MIN, BASE, RELATIVE_ERROR, SCALE, ZERO_THRESHOLD_S
from controlplane.telemetry.buckets import (
    UNBOUNDED_RATIO,
    Axis,
    clip,
    exponential_spans,
    from_exponential,
    from_spans,
)
from controlplane.telemetry.refusal import Reason, Refusals, Refused

MAX_COUNT = 1 << 40
"""Larger counts of one report are refused, so that int64 sums over any range cannot overflow."""
MIN_SCALE, MAX_SCALE = -10, 20
SLACK = 1.0 + 1e-6
"""How far a stated extreme may lie outside its bucket: a sender's logarithm may round the other way at an edge."""


_EDGES = [math.exp2(i * 2.0**-SCALE) for i in range(AXIS_MIN, AXIS_MAX + 2)]


class Edges(NamedTuple):
    """Lower and upper edge of the first occupied bucket, and of the last."""

    lowest: float
    first_upper: float
    last_lower: float
    highest: float


def exponential(name: str, point: ExponentialHistogramDataPoint, refusals: Refusals) -> list[Any] | None:
    """None when the point counts nothing."""
    counts = list(point.positive.bucket_counts)
    zero = point.zero_count
    if any(point.negative.bucket_counts):
        raise Refused(Reason.VALUE, f"{name}: negative.bucket_counts: a duration cannot be negative")
    _check_total(name, point.count, zero + sum(counts), "positive.bucket_counts and zero_count")
    if point.count == 0:
        return None
    scale = point.scale
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise Refused(Reason.COUNTS, f"{name}: scale is {scale}, must be within {MIN_SCALE} and {MAX_SCALE}")
    offset = point.positive.offset
    while counts and not counts[-1]:
        counts.pop()
    leading = next((i for i, count in enumerate(counts) if count), 0)
    counts, offset = counts[leading:], offset + leading
    width = 2.0**-scale
    edges = Edges(0.0, point.zero_threshold, 0.0, point.zero_threshold)
    if counts:
        last = offset + len(counts) - 1
        if scale == SCALE and offset >= AXIS_MIN and last <= AXIS_MAX:  # Our own agents: every point, so be quick.
            first, final = offset - AXIS_MIN, last - AXIS_MIN
            edges = Edges(_EDGES[first], _EDGES[first + 1], _EDGES[final], _EDGES[final + 1])
        else:
            edges = Edges(*(_power(i * width) for i in (offset, offset + 1, last, last + 1)))
    if zero:
        edges = edges._replace(lowest=0.0)
    minimum, maximum = _extremes(name, point, edges)
    if scale >= SCALE:
        axis = from_exponential(scale, offset, counts, zero)
    else:
        spans = exponential_spans(scale, offset, counts)
        clip(spans, minimum if not zero else None, maximum)
        axis = from_spans(spans, zero)
        _warn(name, f"scale {scale}", axis, refusals)
    return _values(name, point, axis, minimum, maximum)


def explicit(name: str, point: HistogramDataPoint, refusals: Refusals) -> list[Any] | None:
    """None when the point counts nothing. Bounds are in the metric's unit."""
    counts, bounds = list(point.bucket_counts), list(point.explicit_bounds)
    if not counts and point.count:
        counts, bounds = [point.count], []
    _check_total(name, point.count, sum(counts), "bucket_counts")
    if point.count == 0:
        return None
    if len(counts) != len(bounds) + 1:
        raise Refused(Reason.COUNTS, f"{name}: bucket_counts must be one more than explicit_bounds")
    if not all(map(math.isfinite, bounds)) or any(high <= low for low, high in pairwise(bounds)):
        raise Refused(Reason.VALUE, f"{name}: explicit_bounds must be finite and ascending")
    stated_low = point.min if point.HasField("min") else None
    stated_high = point.max if point.HasField("max") else None
    if not bounds and (stated_low is None or stated_high is None):
        raise Refused(Reason.COUNTS, f"{name}: explicit_bounds, or min and max, are needed")
    spans: list[tuple[float, float, int]] = []
    for lower, upper, count in zip([-math.inf, *bounds], [*bounds, math.inf], counts, strict=True):
        if not count:
            continue
        if upper < 0:
            raise Refused(Reason.VALUE, f"{name}: bucket_counts below zero: a duration cannot be negative")
        if math.isinf(upper):
            upper = max(lower, 0.0) if stated_high is None else stated_high
            if upper * SLACK < lower:
                raise Refused(Reason.COUNTS, f"{name}: max is {upper}, but there are values above {lower}")
        if lower <= 0:
            if stated_high is not None and math.isfinite(stated_high):
                upper = min(upper, max(stated_high, ZERO_THRESHOLD_S))  # All values may lie far below the first bound.
            lower = min(stated_low, upper) if stated_low is not None and not spans else upper / UNBOUNDED_RATIO
        spans.append((max(lower, 0.0), upper, count))
    minimum, maximum = _extremes(name, point, Edges(*spans[0][:2], *spans[-1][:2]))
    clip(spans, minimum, maximum)
    axis = from_spans(spans, 0)
    if counts[-1] and stated_high is None and bounds:
        # Nothing says how far above the last bound they lie: as little is known as of a first bucket without a minimum.
        axis.error = max(axis.error, UNBOUNDED_RATIO - 1.0)
    _warn(name, "explicit_bounds", axis, refusals)
    return _values(name, point, axis, minimum, maximum)


def _check_total(name: str, count: int, inside: int, fields: str) -> None:
    if count != inside:
        raise Refused(Reason.COUNTS, f"{name}: count is {count}, but {fields} add up to {inside}")
    if count > MAX_COUNT:
        raise Refused(Reason.COUNTS, f"{name}: count is {count}, at most {MAX_COUNT} in one point")


def _extremes(name: str, point: Any, edges: Edges) -> tuple[float, float]:
    """Minimum and maximum as stated, or else the outer edges of the occupied buckets."""
    low, high = edges.lowest, edges.highest
    if point.HasField("min"):
        low = point.min
        if not math.isfinite(low) or low < 0:
            raise Refused(Reason.VALUE, f"{name}: min is {low}, must be finite and not negative")
        if low > max(edges.first_upper, ZERO_THRESHOLD_S) * SLACK:
            raise Refused(Reason.COUNTS, f"{name}: min is {low}, but there are values at or below {edges.first_upper}")
    if point.HasField("max"):
        high = point.max
        if not math.isfinite(high) or high < 0:
            raise Refused(Reason.VALUE, f"{name}: max is {high}, must be finite and not negative")
        if high * SLACK < edges.last_lower and edges.last_lower > ZERO_THRESHOLD_S:
            raise Refused(Reason.COUNTS, f"{name}: max is {high}, but there are values above {edges.last_lower}")
    if point.HasField("min") and low > high * SLACK:
        raise Refused(Reason.VALUE, f"{name}: min {low} is above max {high}")
    return min(low, high), high


def _values(name: str, point: Any, axis: Axis, minimum: float, maximum: float) -> list[Any]:
    total = point.sum if point.HasField("sum") else _estimated_sum(axis)
    if not math.isfinite(total) or total < 0:
        raise Refused(Reason.VALUE, f"{name}: sum is {total}, must be finite and not negative")
    return [axis.low, axis.counts, axis.zero, total, minimum, maximum, axis.error]


def _estimated_sum(axis: Axis) -> float:
    """Bucket midpoints (geometric) times counts: within half a bucket of the truth."""
    first = axis.low + AXIS_MIN + 0.5
    return math.fsum(count * BASE ** (first + i) for i, count in enumerate(axis.counts))


def _power(exponent: float) -> float:
    return math.exp2(min(max(exponent, -1000.0), 1000.0))


def _warn(name: str, what: str, axis: Axis, refusals: Refusals) -> None:
    if axis.error > RELATIVE_ERROR * SLACK:
        refusals.warn(
            f"{name}: kept, but {what} is coarser than scale {SCALE}: counts were spread evenly in log space, "
            "and quantiles of them may be off by the width of a bucket"
        )
