"""A paired sequential test: after how many pairs is it settled which of two is faster? Pure.

Guarantee: whatever ends the pairs early, an arm that is no better is called better with probability `ALPHA` at most,
and the interval misses the truth with twice that at most (a repeated confidence interval, Jennison and Turnbull 1989).
It holds for log ratios that are normal with any mean and any variance: Student's t has bounds that depend on neither.

Looked at after each pair from the third on, by bounds that spend little early and most at the last look, which is fixed
before the first pair (error spending, Lan and DeMets 1983).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

ALPHA = 0.02
"""Probability to call an arm better that is not."""
FEWEST_PAIRS, MOST_PAIRS = 2, 20
EARLY_SPENT = {3: 0.0005, 4: 0.0015, 5: 0.0025, 6: 0.0035, 7: 0.0045, 8: 0.0055, 9: 0.0065}
"""After so many pairs so much of `ALPHA` is spent, unless that is the last look."""
HOPELESS_FROM = 5
"""From so many pairs on, a candidate that is behind is given up; that can only make it better less often."""
BOUNDS: dict[int, tuple[float, float]] = {
    2: (math.inf, 15.839),
    3: (31.973, 4.848),
    4: (10.040, 3.507),
    5: (6.659, 3.047),
    6: (5.381, 2.816),
    7: (4.629, 2.686),
    8: (4.206, 2.606),
    9: (3.901, 2.551),
    10: (math.inf, 2.515),
    11: (math.inf, 2.487),
    12: (math.inf, 2.469),
    13: (math.inf, 2.447),
    14: (math.inf, 2.430),
    15: (math.inf, 2.415),
    16: (math.inf, 2.400),
    17: (math.inf, 2.389),
    18: (math.inf, 2.377),
    19: (math.inf, 2.368),
    20: (math.inf, 2.359),
}
"""Pairs to the bound of |t| where more pairs follow, and where none do: `benchmarks/tuner_measures/race_bounds.py`."""
Counts = tuple[int, int, int]
"""Good requests, all requests, and in how many runs."""
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
    return _improvement(ratios, float(stats.t.ppf(1.0 - ALPHA, len(ratios) - 1)), least_sd)


def counts_sd(default: Counts, candidate: Counts) -> float:
    """Standard deviation of the log ratio of the good of one run each, as of independent requests (delta method). Both
    runs of a pair replay the same requests, which can only make it less."""
    return math.sqrt(sum(_log_variance(good, of, runs) for good, of, runs in (default, candidate)))


def is_hopeless(ratios: Sequence[float]) -> bool:
    """Whether the candidate is so far behind that the pairs to come will not make it better."""
    return len(ratios) >= HOPELESS_FROM and math.fsum(ratios) >= 0


def upper_mean(values: Sequence[float], confidence: float) -> float:
    """Bound of the mean of normal values from above, infinite for a single one."""
    mean, error = _mean_error(values)
    return mean + (float(stats.t.ppf(confidence, len(values) - 1)) * error if error < math.inf else math.inf)


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
    """The mean and its standard error."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < FEWEST_PAIRS:
        return mean, math.inf
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
