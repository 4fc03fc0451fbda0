"""How well a quantile is known from so many values, and the difference and ratio of two of them (pure).

The interval of a quantile lies between two order statistics, whatever the distribution: the number of values below the
true quantile is binomial (H. A. David and H. N. Nagaraja, "Order Statistics", 2003, section 7.1). All take values as
independent; requests that queue for one engine are less than that, and intervals then somewhat too narrow.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from controlplane.evidence.log_factorials import log_factorials

EXACT_UP_TO = 20_000
"""Of more values the binomial distribution is taken as normal, with its ranks rounded outwards."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, in one unit. low <= value <= high."""

    value: float
    low: float
    high: float


def ranks(count: int, q: float, level: float) -> tuple[int, int] | None:
    """Places (from 0, ascending) of the two order statistics that hold the quantile between them with the chance
    `level` at least, each side erring with half of the rest; None where there are too few values, see `needed`."""
    tail = (1.0 - level) / 2.0
    if count < needed(q, level):
        return None
    if count > EXACT_UP_TO:
        spread = NormalDist().inv_cdf(1.0 - tail) * math.sqrt(count * q * (1.0 - q))
        low, high = math.floor(count * q - spread) - 1, math.ceil(count * q + spread)
        return max(low, 0), min(high, count - 1)
    table, k = log_factorials(count), np.arange(count + 1)
    chance = table[count] - table[k] - table[count - k] + k * math.log(q) + (count - k) * math.log1p(-q)
    below = np.cumsum(np.exp(chance))
    # Below the order statistic at place r lie r values: it is too high where at most r values lie below the quantile.
    low = max(int(np.searchsorted(below, tail, side="right")) - 1, 0)
    high = int(np.searchsorted(below, 1.0 - tail, side="left"))
    return low, min(high, count - 1)


def needed(q: float, level: float) -> int:
    """The fewest values of which the smallest and largest hold the quantile between them as surely as `ranks` says.
    q: within 0 and 1, both excluded."""
    return math.ceil(math.log((1.0 - level) / 2.0) / math.log(max(q, 1.0 - q)))


def difference(ours: Estimate, theirs: Estimate) -> Estimate:
    """ours - theirs, by the method of variance estimates recovery: G. Y. Zou and A. Donner, Statistics in Medicine 27
    (2008), formula 3."""
    found = ours.value - theirs.value
    return Estimate(
        found,
        found - math.hypot(ours.value - ours.low, theirs.high - theirs.value),
        found + math.hypot(ours.high - ours.value, theirs.value - theirs.low),
    )


def ratio(ours: Estimate, theirs: Estimate) -> Estimate | None:
    """ours / theirs: `difference` of the logarithms; None where one of them reaches zero."""
    if min(ours.low, theirs.low) <= 0.0:
        return None
    found = difference(_log(ours), _log(theirs))
    return Estimate(math.exp(found.value), math.exp(found.low), math.exp(found.high))


def _log(one: Estimate) -> Estimate:
    return Estimate(math.log(one.value), math.log(one.low), math.log(one.high))
