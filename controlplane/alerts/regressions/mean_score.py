"""What a line follows: the mean score of a tick's requests, with its sampling variance; nan where there was none."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.regressions.yardstick import Scored, ScoredEach

Floats = NDArray[np.float64]

SHRUNK = 2.0
"""Of how few requests a mean place is halved: the place of two or three is mostly their own, not a shift of all."""


@dataclass(frozen=True)
class MeanScore:
    """bucket: of its requests, None: of all; by_tail: their score by tail, else by place; apart: less the mean of the
    other buckets; shifted: of one shift of all after the other, ascending: the mean score by place, that by tail, and
    how many times the supposed variance scores by tail have then. What a tick's place explains of its tail so is taken
    off, and the rest counts by that variance.
    """

    bucket: str | None = None
    by_tail: bool = False
    apart: bool = False
    shifted: tuple[Sequence[float], Sequence[float], Sequence[float]] | None = None

    def of(self, scored: Mapping[str, Scored]) -> tuple[float, float]:
        """Of one tick: mean and variance."""
        mine = [one for name, one in scored.items() if self.bucket in (None, name)]
        mean, variance = _mean(mine, by_tail=self.by_tail)
        if self.shifted is not None:
            if not math.isfinite(mean):
                return mean, variance
            explained, more = self._of_shift(*_mean(mine))
            return mean - float(explained), variance * float(more)
        if not self.apart:
            return mean, variance
        others, others_variance = _mean(
            [one for name, one in scored.items() if name != self.bucket], by_tail=self.by_tail
        )
        return mean - others, variance + others_variance

    def of_each(self, scored: Mapping[str, ScoredEach], ticks: int) -> tuple[Floats, Floats]:
        """Of many ticks, float64[ticks] each."""
        mine = [one for name, one in scored.items() if self.bucket in (None, name)]
        means, variances = _means(mine, ticks, by_tail=self.by_tail)
        if self.shifted is not None:
            explained, more = self._of_shift(*_means(mine, ticks))
            return means - explained, np.where(np.isfinite(means), variances * more, variances)
        if not self.apart:
            return means, variances
        rest = [one for name, one in scored.items() if name != self.bucket]
        others, others_variances = _means(rest, ticks, by_tail=self.by_tail)
        return means - others, variances + others_variances

    def _of_shift(self, place: Floats | float, variance: Floats | float) -> tuple[Floats, Floats]:
        """The mean score by tail that a shift of all explains, whose place is known with so much variance, and how many
        times the supposed variance it has, by the place at least (a standard error less)."""
        assert self.shifted is not None
        (places, means, more), at = self.shifted, place / (1.0 + SHRUNK * variance)
        explained = np.interp(at, places, means)
        return np.asarray(explained), np.asarray(np.interp(at - np.sqrt(variance), places, more))


def _mean(among: Sequence[Scored], *, by_tail: bool = False) -> tuple[float, float]:
    count, total, variance = 0, 0.0, 0.0
    for one in among:
        count += one.count
        total += one.tail if by_tail else one.location
        variance += one.count if by_tail else one.variance
    return (total / count, variance / count**2) if count else (math.nan, 1.0)


def _means(among: Sequence[ScoredEach], ticks: int, *, by_tail: bool = False) -> tuple[Floats, Floats]:
    count, total, variance = np.zeros(ticks), np.zeros(ticks), np.zeros(ticks)
    for one in among:
        count += one.count
        total += one.tail if by_tail else one.location
        variance += one.count if by_tail else one.variance
    some = count > 0.0
    divisor = np.where(some, count, 1.0)
    return np.where(some, total / divisor, math.nan), np.where(some, variance / divisor**2, 1.0)
