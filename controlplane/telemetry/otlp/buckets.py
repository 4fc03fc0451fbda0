"""Any sender's histogram buckets onto the contract's axis (pure).

Guarantee: the number of values is kept exactly. Buckets at the axis's own scale or finer lose nothing; wider ones are
spread evenly in log space over the axis buckets they cover, and `error` says how far off a quantile may then be.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, RELATIVE_ERROR, SCALE, ZERO_THRESHOLD_S

Floats = NDArray[np.float64]
_EDGES_LOG2 = (np.arange(AXIS_LENGTH + 1) + AXIS_MIN) / 2.0**SCALE
_FARTHEST = 1000.0
"""Of a power of two that a float can hold, with room to divide two of them."""
UNBOUNDED_RATIO = 10.0
"""How far below its upper edge a first bucket is taken to reach when its sender states no minimum."""


@dataclass
class Axis:
    """counts[i] belongs to position low + i of the axis; `error` is the relative error of a quantile."""

    low: int
    counts: list[int]
    zero: int
    error: float = RELATIVE_ERROR


def from_exponential(scale: int, offset: int, counts: Sequence[int], zero: int) -> Axis:
    """Buckets of an OTLP exponential histogram at `scale` >= SCALE; finer ones are merged, exactly."""
    low = offset - (AXIS_MIN << (scale - SCALE))
    if scale == SCALE and low >= 0 and low + len(counts) <= AXIS_LENGTH:
        return Axis(low, list(counts), zero)
    dense = np.zeros(AXIS_LENGTH, dtype=np.int64)
    values = np.array(counts, dtype=np.int64)
    positions = (np.arange(len(counts), dtype=np.int64) + offset >> (scale - SCALE)) - AXIS_MIN
    below = positions < 0
    np.add.at(dense, np.minimum(positions[~below], AXIS_LENGTH - 1), values[~below])
    return _trim(dense, zero + int(values[below].sum()))


def from_spans(spans: Sequence[tuple[float, float, int]], zero: int) -> Axis:
    """Buckets given as (lower, upper, count) with 0 <= lower <= upper, ascending, wider than the axis's own."""
    kept = []
    for lower, upper, count in spans:
        if upper <= ZERO_THRESHOLD_S:
            zero += count
        else:
            kept.append((max(lower, ZERO_THRESHOLD_S), upper, count))
    if not kept:
        return Axis(0, [], zero)
    lowers, uppers, values = np.array(kept).T
    low, high = np.log2(lowers), np.log2(uppers)
    first = min(max(math.floor(math.ldexp(low[0], SCALE)) - AXIS_MIN, 0), AXIS_LENGTH - 1)
    last = min(max(math.ceil(math.ldexp(high[-1], SCALE)) - AXIS_MIN, first + 1), AXIS_LENGTH)
    below = _values_below(_EDGES_LOG2[first : last + 1], low, high, values)
    below[0], below[-1] = 0, values.sum()  # What lies outside the axis goes to its ends.
    axis = _trim(np.diff(below).astype(np.int64), zero, max(RELATIVE_ERROR, float((uppers / lowers).max()) - 1.0))
    axis.low += first if axis.counts else 0
    return axis


def _values_below(edges: Floats, low: Floats, high: Floats, values: Floats) -> Floats:
    """How many values lie at or below each edge, where `values[i]` are spread evenly over (low[i], high[i]]."""
    span = np.searchsorted(high, edges, side="right")  # The first that reaches beyond the edge.
    before = np.concatenate([[0.0], np.cumsum(values)])[span]
    inside = np.minimum(span, len(high) - 1)
    width = high[inside] - low[inside]
    share = np.clip((edges - low[inside]) / np.where(width > 1e-12, width, np.inf), 0.0, 1.0)
    return before + np.where(span < len(high), np.rint(share * values[inside]), 0.0)


def exponential_spans(scale: int, offset: int, counts: Sequence[int]) -> list[tuple[float, float, int]]:
    """The edges of the occupied buckets of an exponential histogram at any scale."""
    exponents = (np.arange(len(counts) + 1, dtype=float) + offset) * 2.0**-scale
    edges = np.exp2(np.clip(exponents, -_FARTHEST, _FARTHEST)).tolist()
    return [(lower, upper, count) for lower, upper, count in zip(edges, edges[1:], counts, strict=False) if count]


def clip(spans: list[tuple[float, float, int]], minimum: float | None, maximum: float | None) -> None:
    """Narrow the first and the last occupied bucket to the sender's own extremes, in place."""
    if spans and minimum is not None and minimum > spans[0][0]:
        spans[0] = (min(minimum, spans[0][1]), *spans[0][1:])
    if spans and maximum is not None and maximum < spans[-1][1]:
        spans[-1] = (spans[-1][0], max(maximum, spans[-1][0]), spans[-1][2])


def power(exponent: float) -> float:
    """2 ** exponent, kept within what a float can hold."""
    return math.exp2(min(max(exponent, -_FARTHEST), _FARTHEST))


def _trim(dense: NDArray[np.int64], zero: int, error: float = RELATIVE_ERROR) -> Axis:
    occupied = np.flatnonzero(dense)
    if not len(occupied):
        return Axis(0, [], zero, error)
    low, high = int(occupied[0]), int(occupied[-1]) + 1
    return Axis(low, dense[low:high].tolist(), zero, error)
