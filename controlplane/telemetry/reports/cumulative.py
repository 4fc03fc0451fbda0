"""Cumulative points to what was added since the point before (pure).

Guarantee: counts are subtracted in the sender's own buckets, so that the differences of a series add up exactly to
what its process has counted, over restarts too. What decides (OpenTelemetry metrics data model, "Resets and gaps"):

- A series' first point belongs to (start, time] whole, and is kept whole where its start is known and within what is
  kept; else it only says where counting stands, and what it holds is not counted.
- A later start, or anything that fell (the value, the number of values, one bucket), is a reset: the process began
  again, and its point counts whole.
- A point of the same time and content is a repeat. An older one is refused: what it says is in what was counted. So
  is a different one of the same time, or of an earlier start: two processes then write one series.
- Other buckets than before: scales are brought to the coarser, bounds to those that both have. A sender whose minimum
  or maximum did not move in between leaves the extremes of the difference open: its buckets' edges, within the
  sender's own extremes.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from controlplane.telemetry.otlp.buckets import power
from controlplane.telemetry.otlp.raw_point import (
    RawExplicit,
    RawExponential,
    RawNumber,
    RawPoint,
    decode,
    encode,
    trimmed,
)
from controlplane.telemetry.values.refusal import Reason, Refused


class Advanced(NamedTuple):
    """delta: what to count, None for nothing; state: what to remember; repeated: the point is the one remembered."""

    delta: RawPoint | None
    state: bytes
    was_reset: bool = False
    repeated: bool = False


def advance(state: bytes | None, point: RawPoint, kept_from_ns: int = 0) -> Advanced:
    """`state` is None for a series that is not known. Raises `Refused`; the state then stays as it is."""
    after = encode(point)
    if state is None:
        is_whole = point.start_ns > 0 and point.start_ns >= kept_from_ns
        return Advanced(_counted(point) if is_whole else None, after)
    before = decode(state)
    if point.time_ns < before.time_ns:
        raise Refused(
            Reason.TIMESTAMP,
            "a cumulative point older than the newest of its series: what it says has been counted; send in order",
        )
    if point.time_ns == before.time_ns:
        if after == state:
            return Advanced(None, state, repeated=True)
        raise Refused(Reason.TIMESTAMP, f"two different cumulative points at one time: {_TWO_WRITERS}")
    if point.start_ns and before.start_ns and point.start_ns != before.start_ns:
        if point.start_ns < before.start_ns:
            raise Refused(
                Reason.TIMESTAMP, f"start_time_unix_nano is before that of the series' last point: {_TWO_WRITERS}"
            )
        return Advanced(_counted(point), after, was_reset=True)
    delta = _difference(before, point)
    if delta is None:
        return Advanced(_counted(point), after, was_reset=True)
    return Advanced(_counted(delta), after)


_TWO_WRITERS = "two processes write one series; give each its own service.instance.id"


def _counted(point: RawPoint) -> RawPoint | None:
    """The point, if it counts anything."""
    return point if (point.value if isinstance(point, RawNumber) else point.count) else None


def _difference(before: RawPoint, point: RawPoint) -> RawPoint | None:
    """What was added in between; None when something fell."""
    if isinstance(point, RawNumber) and isinstance(before, RawNumber):
        return None if point.value < before.value else replace(point, value=point.value - before.value)
    if isinstance(point, RawExponential) and isinstance(before, RawExponential):
        return _exponential(before, point)
    if isinstance(point, RawExplicit) and isinstance(before, RawExplicit):
        return _explicit(before, point)
    return None  # Another kind of point altogether: another process.


def _exponential(before: RawExponential, point: RawExponential) -> RawExponential | None:
    scale, threshold = min(before.scale, point.scale), max(before.zero_threshold, point.zero_threshold)
    old, new = _coarser(before, scale, threshold), _coarser(point, scale, threshold)
    shift = old.offset - new.offset
    if old.counts and (shift < 0 or shift + len(old.counts) > len(new.counts)):
        return None  # A bucket that held something is empty.
    counts = list(new.counts)
    for place, count in enumerate(old.counts, shift):
        counts[place] -= count
    zero = new.zero - old.zero
    if zero < 0 or min(counts, default=0) < 0:
        return None
    offset, kept = trimmed(new.offset, counts)
    edges: Edges | None = None
    if kept:
        width = math.ldexp(1.0, -scale)
        edges = (power(offset * width), power((offset + len(kept)) * width))
    if zero:
        edges = (0.0, edges[1] if edges else threshold)
    minimum, maximum = _extremes(before, point, edges)
    total = _grown(before.total, point.total)
    return RawExponential(before.time_ns, point.time_ns, scale, offset, kept, zero, threshold, total, minimum, maximum)


def _coarser(point: RawExponential, scale: int, threshold: float) -> RawExponential:
    """The same values at a smaller scale and a larger zero threshold."""
    offset, counts, zero = point.offset, point.counts, point.zero
    shift = point.scale - scale
    if shift and counts:
        low = offset >> shift
        merged = [0] * (((offset + len(counts) - 1) >> shift) - low + 1)
        for index, count in enumerate(counts, offset):
            merged[(index >> shift) - low] += count
        offset, counts = low, tuple(merged)
    if threshold > point.zero_threshold:
        width = math.ldexp(1.0, -scale)
        below = sum(power((offset + place + 1) * width) <= threshold for place in range(len(counts)))
        zero += sum(counts[:below])
        offset, counts = trimmed(offset + below, counts[below:])
    return replace(point, scale=scale, offset=offset, counts=counts, zero=zero, zero_threshold=threshold)


def _explicit(before: RawExplicit, point: RawExplicit) -> RawExplicit | None:
    old: Sequence[int] = before.counts
    new: Sequence[int] = point.counts
    bounds = point.bounds
    if before.bounds != point.bounds:
        shared = set(before.bounds) & set(point.bounds)
        bounds = tuple(bound for bound in point.bounds if bound in shared)
        old, new = _joined(before, shared), _joined(point, shared)
    counts = tuple(now - then for now, then in zip(new, old, strict=True))
    if min(counts) < 0:
        return None
    occupied = [place for place, count in enumerate(counts) if count]
    edges: Edges | None = None
    if occupied:
        outer = (-math.inf, *bounds, math.inf)
        edges = (outer[occupied[0]], outer[occupied[-1] + 1])
    minimum, maximum = _extremes(before, point, edges)
    return RawExplicit(
        before.time_ns, point.time_ns, bounds, counts, _grown(before.total, point.total), minimum, maximum
    )


def _joined(point: RawExplicit, shared: set[float]) -> Sequence[int]:
    """The counts between the bounds that are shared."""
    counts = [0]
    for bound, count in zip((*point.bounds, None), point.counts, strict=True):
        counts[-1] += count
        if bound in shared:
            counts.append(0)
    return counts


Edges = tuple[float, float]
_Histogram = RawExponential | RawExplicit


def _extremes(before: _Histogram, point: _Histogram, edges: Edges | None) -> tuple[float | None, float | None]:
    """Of what was added: the sender's own where they moved, else its buckets' edges within the sender's own."""
    minimum, maximum = point.minimum, point.maximum
    if edges is None:
        return None, None
    if minimum is not None and (before.minimum is None or minimum >= before.minimum):
        minimum = max(minimum, edges[0])
    if maximum is not None and (before.maximum is None or maximum <= before.maximum):
        maximum = min(maximum, edges[1])
    return minimum, maximum


def _grown(before: float | None, now: float | None) -> float | None:
    """The sum of what was added; None (unknown) where it is not stated, or fell while the counts grew."""
    return None if before is None or now is None or now < before else now - before
