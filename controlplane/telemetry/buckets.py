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

_EDGES_LOG2 = (np.arange(AXIS_LENGTH + 1) + AXIS_MIN) / 2.0**SCALE
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
    """Buckets given as (lower, upper, count) with 0 <= lower <= upper, wider than the axis's own."""
    dense = np.zeros(AXIS_LENGTH, dtype=np.int64)
    error = RELATIVE_ERROR
    for lower, upper, count in spans:
        if upper <= ZERO_THRESHOLD_S:
            zero += count
            continue
        lower = max(lower, ZERO_THRESHOLD_S)
        low, high = math.log2(lower), math.log2(upper)
        if high - low > 1e-12:
            share = np.clip((_EDGES_LOG2 - low) / (high - low), 0.0, 1.0)
        else:
            share = (high <= _EDGES_LOG2).astype(float)
        below: NDArray[np.int64] = np.rint(share * count).astype(np.int64)
        below[0], below[-1] = 0, count  # What lies outside the axis goes to its ends.
        dense += np.diff(below)
        error = max(error, upper / lower - 1.0)
    return _trim(dense, zero, error)


def exponential_spans(scale: int, offset: int, counts: Sequence[int]) -> list[tuple[float, float, int]]:
    """The edges of the occupied buckets of an exponential histogram at any scale."""
    width = 2.0**-scale
    return [
        (_power((offset + i) * width), _power((offset + i + 1) * width), count)
        for i, count in enumerate(counts)
        if count
    ]


def clip(spans: list[tuple[float, float, int]], minimum: float | None, maximum: float | None) -> None:
    """Narrow the first and the last occupied bucket to the sender's own extremes, in place."""
    if spans and minimum is not None and minimum > spans[0][0]:
        spans[0] = (min(minimum, spans[0][1]), *spans[0][1:])
    if spans and maximum is not None and maximum < spans[-1][1]:
        spans[-1] = (spans[-1][0], max(maximum, spans[-1][0]), spans[-1][2])


def _power(exponent: float) -> float:
    return math.exp2(min(max(exponent, -1000.0), 1000.0))


def _trim(dense: NDArray[np.int64], zero: int, error: float = RELATIVE_ERROR) -> Axis:
    occupied = np.flatnonzero(dense)
    if not len(occupied):
        return Axis(0, [], zero, error)
    low, high = int(occupied[0]), int(occupied[-1]) + 1
    return Axis(low, dense[low:high].tolist(), zero, error)
