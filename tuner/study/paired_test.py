"""A paired sequential test: after how many pairs is it settled which of two is faster? Pure.

Guarantee: whatever ends the pairs early, an arm that is no better is called better with probability `ALPHA` at most,
and the interval misses the truth with twice that at most (a repeated confidence interval, Jennison and Turnbull 1989).
It holds for log ratios that are normal with any mean and any variance: Student's t, of values drawn to their fences,
has bounds that depend on neither. Of heavy tails (a few runs far off, in either arm) it errs no more often: measured.

Looked at after each pair from the third on, by bounds that spend little early and most at the last look, which is fixed
before the first pair (error spending, Lan and DeMets 1983).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from scipy import stats

ALPHA = 0.02
"""Probability to call an arm better that is not."""
FEWEST_PAIRS, MOST_PAIRS = 2, 20
EARLY_SPENT = {3: 0.0005, 4: 0.0015, 5: 0.0025, 6: 0.0035, 7: 0.0045, 8: 0.0055, 9: 0.0065}
"""After so many pairs so much of `ALPHA` is spent, unless that is the last look."""
HOPELESS_FROM = 6
"""From so many pairs on, a candidate that is behind is given up; that can only make it better less often."""
BOUNDS: dict[int, tuple[float, float]] = {
    2: (math.inf, 15.941),
    3: (31.270, 4.884),
    4: (9.967, 3.518),
    5: (6.657, 3.042),
    6: (6.319, 3.016),
    7: (5.502, 2.875),
    8: (4.574, 2.703),
    9: (4.201, 2.649),
    10: (math.inf, 2.579),
    11: (math.inf, 2.547),
    12: (math.inf, 2.508),
    13: (math.inf, 2.490),
    14: (math.inf, 2.460),
    15: (math.inf, 2.444),
    16: (math.inf, 2.421),
    17: (math.inf, 2.410),
    18: (math.inf, 2.394),
    19: (math.inf, 2.382),
    20: (math.inf, 2.374),
}
"""Pairs to the bound of |t| where more pairs follow, and where none do: `benchmarks/tuner_measures/race_bounds.py`."""
Counts = tuple[int, int, int]
"""Good requests, all requests, and in how many runs."""
FENCE, FENCED_FROM = 4.0, 6
"""A value further from the median than so many robust standard deviations (1.48 times the median distance) is moved to
there, once there are so many values: on a machine that stalls now and then one run far off says little of a
configuration, and as it stands would widen the interval beyond all use."""
TO_SD = 1.4826
_FARTHEST = 50.0
"""Nothing is more than exp(50) times slower; beyond that the exponential would overflow."""


@dataclass(frozen=True)
class Improvement:
    """1 - candidate / default: the estimate and its interval after so many pairs."""

    estimate: float
    low: float
    high: float
    repeats: int

    @property
    def decided(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


def log_ratios(default: Sequence[float], candidate: Sequence[float]) -> list[float]:
    """Of pairs of positive figures, equally many."""
    return [math.log(other / one) for one, other in zip(default, candidate, strict=True)]


def look(ratios: Sequence[float], last: int, least_sd: float = 0.0) -> Improvement:
    """After so many pairs of `last` at most (`FEWEST_PAIRS` to `MOST_PAIRS`). Without a look, all is possible yet.

    least_sd: a pair's log ratio scatters at least by so much, however equal a few of them look, as ratios of counts do.
    """
    pairs = len(ratios)
    early, final = BOUNDS.get(pairs, (math.inf, math.inf))
    return _improvement(ratios, final if pairs == last else early, least_sd)


def look_once(ratios: Sequence[float], least_sd: float = 0.0) -> Improvement:
    """At pairs that were not looked at before."""
    return _improvement(ratios, _quantile(1.0 - ALPHA, len(ratios) - 1), least_sd)


def counts_sd(default: Counts, candidate: Counts) -> float:
    """Standard deviation of the log ratio of the good of one run each, as of independent requests (delta method). Both
    runs of a pair replay the same requests, which can only make it less."""
    return math.sqrt(sum(_log_variance(good, of, runs) for good, of, runs in (default, candidate)))


def is_hopeless(ratios: Sequence[float]) -> bool:
    """Whether the candidate is so far behind that the pairs to come will not make it better."""
    return len(ratios) >= HOPELESS_FROM and math.fsum(fenced(ratios)) >= 0


def fenced(values: Sequence[float]) -> list[float]:
    """The same, those far off moved to their fence."""
    if len(values) < FENCED_FROM:
        return list(values)
    middle = median(values)
    far = FENCE * TO_SD * median(abs(value - middle) for value in values)
    return [min(max(value, middle - far), middle + far) for value in values]


def upper_mean(values: Sequence[float], confidence: float) -> float:
    """Bound of the mean of normal values from above, infinite for a single one; of others' typical one."""
    mean, error = _mean_error(values)
    return mean + (_quantile(confidence, len(values) - 1) * error if error < math.inf else math.inf)


@cache
def _quantile(confidence: float, free: int) -> float:
    """Of Student's t with so many degrees of freedom."""
    return float(stats.t.ppf(confidence, free))


def _log_variance(good: int, of: int, runs: int) -> float:
    share = (good + 0.5) / (of + 1.0)  # Of few that were all good, the next need not be.
    return (1.0 - share) / share * runs / max(of, 1)


def _improvement(ratios: Sequence[float], bound: float, least_sd: float = 0.0) -> Improvement:
    mean, error = _mean_error(ratios)
    error = max(error, least_sd / math.sqrt(len(ratios)))
    half = math.inf if math.inf in (bound, error) else bound * error
    low = 1.0 - math.exp(min(mean + half, _FARTHEST))
    return Improvement(
        1.0 - math.exp(min(mean, _FARTHEST)), low, 1.0 - math.exp(max(mean - half, -_FARTHEST)), len(ratios)
    )


def _mean_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean of the values within their fences, and its standard error."""
    own, count = fenced(values), len(values)
    mean = math.fsum(own) / count
    if count < FEWEST_PAIRS:
        return mean, math.inf
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in own) / (count - 1) / count)
