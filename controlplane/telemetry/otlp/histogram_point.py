"""One histogram point, exponential or with explicit bounds: read from OTLP, checked, and put on the contract's axis.

Guarantee: what is returned is consistent in itself: the counts add up to the point's count, and minimum and maximum lie
in occupied buckets. Everything else raises `Refused`. Wider buckets than the axis's are kept with a warning.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import ExponentialHistogramDataPoint, HistogramDataPoint

from controlplane.contract.histogram import AXIS_MAX, AXIS_MIN, BASE, RELATIVE_ERROR, SCALE, ZERO_THRESHOLD_S
from controlplane.telemetry.otlp.buckets import (
    UNBOUNDED_RATIO,
    Axis,
    clip,
    exponential_spans,
    from_exponential,
    from_spans,
    power,
)
from controlplane.telemetry.otlp.raw_point import MAX_BUCKETS, RawExplicit, RawExponential, trimmed
from controlplane.telemetry.values.magnitude import LARGEST, fits
from controlplane.telemetry.values.refusal import Reason, Refusals, Refused

MAX_COUNT = 1 << 40
"""Larger counts of one report are refused, so that int64 sums over any range cannot overflow."""
MIN_SCALE, MAX_SCALE = -10, 20
SLACK = 1.0 + 1e-6
"""How far a stated extreme may lie outside its bucket: a sender's logarithm may round the other way at an edge."""

AXIS_EDGES = [math.exp2(i * 2.0**-SCALE) for i in range(AXIS_MIN, AXIS_MAX + 2)]
"""Lower edge of the bucket at each position of the axis, and the upper edge of the last."""


class Edges(NamedTuple):
    """Lower and upper edge of the first occupied bucket, and of the last. first_upper: infinite for the axis's own
    last bucket, where a sender at the contract's scale puts everything above it."""

    lowest: float
    first_upper: float
    last_lower: float
    highest: float


class AxisPoint(NamedTuple):
    """A histogram on the contract's axis; counts[i] belongs to position low + i, error is of a quantile (relative)."""

    low: int
    counts: Sequence[int]
    zero: int
    total: float
    minimum: float
    maximum: float
    error: float


def read_exponential(name: str, point: ExponentialHistogramDataPoint) -> RawExponential:
    """May count nothing; raises `Refused`."""
    counts = list(point.positive.bucket_counts)
    zero = point.zero_count
    if any(point.negative.bucket_counts):
        raise Refused(Reason.VALUE, f"{name}: negative.bucket_counts: a duration cannot be negative")
    _check_total(name, point.count, zero + sum(counts), "positive.bucket_counts and zero_count")
    if not MIN_SCALE <= point.scale <= MAX_SCALE:
        raise Refused(Reason.COUNTS, f"{name}: scale is {point.scale}, must be within {MIN_SCALE} and {MAX_SCALE}")
    threshold = point.zero_threshold
    if not math.isfinite(threshold) or threshold < 0:
        raise Refused(Reason.VALUE, f"{name}: zero_threshold is {threshold}, must be finite and not negative")
    offset, kept = trimmed(point.positive.offset, counts)
    _check_number(name, "positive.bucket_counts", len(kept))
    return RawExponential(
        point.start_time_unix_nano,
        point.time_unix_nano,
        point.scale,
        offset,
        kept,
        zero,
        threshold,
        *_stated(name, point),
    )


def read_explicit(name: str, point: HistogramDataPoint) -> RawExplicit:
    """May count nothing; raises `Refused`. Bounds are in the metric's unit."""
    counts, bounds = list(point.bucket_counts), list(point.explicit_bounds)
    if not counts:
        counts, bounds = [point.count], []  # OTLP: no buckets at all, the count alone.
    _check_total(name, point.count, sum(counts), "bucket_counts")
    if len(counts) != len(bounds) + 1:
        raise Refused(Reason.COUNTS, f"{name}: bucket_counts must be one more than explicit_bounds")
    _check_number(name, "bucket_counts", len(counts))
    if not all(map(math.isfinite, bounds)) or any(high <= low for low, high in pairwise(bounds)):
        raise Refused(Reason.VALUE, f"{name}: explicit_bounds must be finite and ascending")
    return RawExplicit(
        point.start_time_unix_nano, point.time_unix_nano, tuple(bounds), tuple(counts), *_stated(name, point)
    )


def on_axis(name: str, point: RawExponential | RawExplicit, refusals: Refusals) -> AxisPoint:
    """The point on the contract's axis. Raises `Refused`; tells `refusals` of buckets coarser than the axis's."""
    return (
        _exponential(name, point, refusals) if isinstance(point, RawExponential) else _explicit(name, point, refusals)
    )


def check_extremes(name: str, point: RawExponential | RawExplicit) -> None:
    """What `on_axis` would refuse for its minimum or maximum is refused here as well: for points not put there yet."""
    if isinstance(point, RawExponential):
        _extremes(name, point, _exponential_edges(point))
    else:
        spans = _explicit_spans(name, point)
        _extremes(name, point, Edges(*spans[0][:2], *spans[-1][:2]))


def _exponential(name: str, point: RawExponential, refusals: Refusals) -> AxisPoint:
    minimum, maximum = _extremes(name, point, _exponential_edges(point))
    if point.scale >= SCALE:
        axis = from_exponential(point.scale, point.offset, point.counts, point.zero)
    else:
        spans = exponential_spans(point.scale, point.offset, point.counts)
        clip(spans, minimum if not point.zero else None, maximum)
        axis = from_spans(spans, point.zero)
        _warn(name, f"scale {point.scale}", axis, refusals)
    return _axis_point(point, axis, minimum, maximum)


def _exponential_edges(point: RawExponential) -> Edges:
    edges = Edges(0.0, point.zero_threshold, 0.0, point.zero_threshold)
    if point.counts:
        first, last = point.offset, point.offset + len(point.counts) - 1
        width = math.ldexp(1.0, -point.scale)
        edges = Edges(*(power(i * width) for i in (first, first + 1, last, last + 1)))
        if point.scale == SCALE and first == AXIS_MAX:
            edges = edges._replace(first_upper=math.inf)
    return edges._replace(lowest=0.0) if point.zero else edges


def _explicit(name: str, point: RawExplicit, refusals: Refusals) -> AxisPoint:
    spans = _explicit_spans(name, point)
    minimum, maximum = _extremes(name, point, Edges(*spans[0][:2], *spans[-1][:2]))
    clip(spans, minimum, maximum)
    axis = from_spans(spans, 0)
    if point.counts[-1] and point.maximum is None and point.bounds:
        # Nothing says how far above the last bound they lie: as little is known as of a first bucket without a minimum.
        axis.error = max(axis.error, UNBOUNDED_RATIO - 1.0)
    _warn(name, "explicit_bounds", axis, refusals)
    return _axis_point(point, axis, minimum, maximum)


def _explicit_spans(name: str, point: RawExplicit) -> list[tuple[float, float, int]]:
    """(lower, upper, count) of the occupied buckets, the open ones closed by what is known of the extremes."""
    bounds, stated_low, stated_high = point.bounds, point.minimum, point.maximum
    if not bounds and (stated_low is None or stated_high is None):
        raise Refused(Reason.COUNTS, f"{name}: explicit_bounds, or min and max, are needed")
    spans: list[tuple[float, float, int]] = []
    for lower, upper, count in zip((-math.inf, *bounds), (*bounds, math.inf), point.counts, strict=True):
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
    return spans


def _check_total(name: str, count: int, inside: int, fields: str) -> None:
    if count != inside:
        raise Refused(Reason.COUNTS, f"{name}: count is {count}, but {fields} add up to {inside}")
    if count > MAX_COUNT:
        raise Refused(Reason.COUNTS, f"{name}: count is {count}, at most {MAX_COUNT} in one point")


def _check_number(name: str, field: str, buckets: int) -> None:
    if buckets > MAX_BUCKETS:
        raise Refused(Reason.COUNTS, f"{name}: {field}: {buckets} of them, at most {MAX_BUCKETS}")


def _stated(name: str, point: Any) -> tuple[float | None, float | None, float | None]:
    """(sum, min, max), each None where it is not stated. Of no values the sum is nothing, whatever is stated."""
    if point.count == 0:
        return 0.0, None, None
    found: list[float | None] = []
    for field in ("sum", "min", "max"):
        value: float | None = getattr(point, field) if point.HasField(field) else None
        if value is not None and (not fits(value) or value < 0):
            wanted = f"must be finite, not negative and at most {LARGEST:g}"
            raise Refused(Reason.VALUE, f"{name}: {field} is {value}, {wanted}")
        found.append(value)
    return found[0], found[1], found[2]


def _extremes(name: str, point: RawExponential | RawExplicit, edges: Edges) -> tuple[float, float]:
    """Minimum and maximum as stated, or else the outer edges of the occupied buckets."""
    low = edges.lowest if point.minimum is None else point.minimum
    high = max(edges.highest, low) if point.maximum is None else point.maximum
    if point.minimum is not None and low > max(edges.first_upper, ZERO_THRESHOLD_S) * SLACK:
        raise Refused(Reason.COUNTS, f"{name}: min is {low}, but there are values at or below {edges.first_upper}")
    if point.maximum is not None and high * SLACK < edges.last_lower and edges.last_lower > ZERO_THRESHOLD_S:
        raise Refused(Reason.COUNTS, f"{name}: max is {high}, but there are values above {edges.last_lower}")
    if point.minimum is not None and low > high * SLACK:
        raise Refused(Reason.VALUE, f"{name}: min {low} is above max {high}")
    return min(low, high), high


def _axis_point(point: RawExponential | RawExplicit, axis: Axis, minimum: float, maximum: float) -> AxisPoint:
    total = _estimated_sum(axis) if point.total is None else point.total
    return AxisPoint(axis.low, axis.counts, axis.zero, total, minimum, maximum, axis.error)


def _estimated_sum(axis: Axis) -> float:
    """Bucket midpoints (geometric) times counts: within half a bucket of the truth."""
    first = axis.low + AXIS_MIN + 0.5
    return math.fsum(count * BASE ** (first + i) for i, count in enumerate(axis.counts))


def _warn(name: str, what: str, axis: Axis, refusals: Refusals) -> None:
    if axis.error > RELATIVE_ERROR * SLACK:
        refusals.warn(
            f"{name}: kept, but {what} is coarser than scale {SCALE}: counts were spread evenly in log space, "
            "and quantiles of them may be off by the width of a bucket"
        )
