"""Summaries of repeated measurements. Pure.

Ratios are paired: two contestants measured in the same round saw the same machine, so the ratio is taken in each round
and then summarised. That is why a ratio column need not be the quotient of two median columns.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Of `count` values: the median, the quartiles and the extremes."""

    median: float
    low_quartile: float
    high_quartile: float
    minimum: float
    maximum: float
    count: int

    @property
    def iqr(self) -> float:
        return self.high_quartile - self.low_quartile


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between order statistics (Hyndman and Fan's type 7, numpy's default). NaN of nothing."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share {share} is not between 0 and 1")
    if not values:
        return math.nan
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    if ordered[below] == ordered[above]:
        return ordered[below]
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def summarize(values: Sequence[float]) -> Summary:
    """Raises `ValueError` for no values."""
    if not values:
        raise ValueError("nothing was measured")
    return Summary(
        statistics.median(values),
        quantile(values, 0.25),
        quantile(values, 0.75),
        min(values),
        max(values),
        len(values),
    )


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Summary:
    """Round by round; both must have the same rounds."""
    if len(numerators) != len(denominators):
        raise ValueError(f"{len(numerators)} rounds against {len(denominators)}")
    return summarize([above / below for above, below in zip(numerators, denominators, strict=True)])
