"""Whether a value is as frequent in one group as in another: exact test, interval of the difference, strength (pure).

All of them take requests as independent, given which are of the group: labels that lie in it by chance alone do so like
draws without replacement.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.evidence.binomial import wilson_upper
from controlplane.evidence.log_factorials import log_factorials

Counts = NDArray[np.int64]
_ROUNDING = 1e-7
"""Tables as likely as the one found count with it; by so much two equal chances may differ as floats."""


@dataclass(frozen=True)
class Interval:
    """Of a difference of shares, within -1 and 1."""

    low: float
    high: float


def fisher_exact(inside: int, of_inside: int, outside: int, of_outside: int) -> float:
    """Two-sided p-value of `inside` of `of_inside` against `outside` of `of_outside`: the chance of all tables with
    these margins that are no likelier (R. A. Fisher, "Statistical Methods for Research Workers", 5th ed., 1934)."""
    total = inside + outside
    table = log_factorials(of_inside + of_outside)
    low, high = max(0, total - of_outside), min(total, of_inside)
    j = np.arange(low, high + 1)
    weight = -(table[j] + table[of_inside - j] + table[total - j] + table[of_outside - total + j])
    weight -= weight.max()
    chance = np.exp(weight)
    found = chance[inside - low]
    return min(float(chance[chance <= found * (1.0 + _ROUNDING)].sum() / chance.sum()), 1.0)


def newcombe(inside: int, of_inside: int, outside: int, of_outside: int, z: float) -> Interval:
    """The difference inside/of_inside - outside/of_outside by Wilson's bounds of both: R. G. Newcombe, Statistics in
    Medicine 17 (1998), method 10. z: normal quantile of the interval's level."""
    ours, theirs = inside / of_inside, outside / of_outside
    upper, lower = _wilson(inside, of_inside, z)
    other_upper, other_lower = _wilson(outside, of_outside, z)
    difference = ours - theirs
    return Interval(
        max(difference - math.hypot(ours - lower, other_upper - theirs), -1.0),
        min(difference + math.hypot(upper - ours, theirs - other_lower), 1.0),
    )


def cramers_v(inside: Counts, outside: Counts) -> float:
    """How strongly a table of int64[values] inside and outside tells the two apart, 0 to 1, with what chance alone
    would give taken off: W. Bergsma, Journal of the Korean Statistical Society 42 (2013)."""
    here, there, total = int(inside.sum()), int(outside.sum()), int(inside.sum() + outside.sum())
    values = (inside + outside).astype(np.float64)
    inside, outside, values = inside[values > 0], outside[values > 0], values[values > 0]
    if not here or not there or len(values) < 2 or total < 3:
        return 0.0
    expected = values * (here / total)
    squares = float((((inside - expected) ** 2) / expected + ((inside - expected) ** 2) / (values - expected)).sum())
    columns = len(values)
    over = max(0.0, squares / total - (columns - 1) / (total - 1))
    degrees = min(columns - (columns - 1) ** 2 / (total - 1) - 1.0, 2.0 - 1.0 / (total - 1) - 1.0)
    return min(math.sqrt(over / degrees), 1.0) if degrees > 0.0 else 0.0


def stratified_difference(inside: Counts, of_inside: Counts, outside: Counts, of_outside: Counts) -> float | None:
    """The difference of shares within strata, int64[strata] each, by Mantel and Haenszel's weights (S. Greenland and
    J. M. Robins, Biometrics 41, 1985). None where no stratum has both groups."""
    there = of_inside * of_outside > 0
    if not there.any():
        return None
    ours, theirs = of_inside[there].astype(np.float64), of_outside[there].astype(np.float64)
    weights = ours * theirs / (ours + theirs)
    return float((weights * (inside[there] / ours - outside[there] / theirs)).sum() / weights.sum())


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p-value corrected for looking at all of them: with those at most alpha named, the chance of naming any
    wrongly is at most alpha, however they depend (S. Holm, Scandinavian Journal of Statistics 6, 1979)."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, worst = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, p_values[place] * (len(order) - rank)))
        adjusted[place] = worst
    return adjusted


def _wilson(count: int, of: int, z: float) -> tuple[float, float]:
    """Upper and lower bound."""
    return wilson_upper(count, of, z), 1.0 - wilson_upper(of - count, of, z)
