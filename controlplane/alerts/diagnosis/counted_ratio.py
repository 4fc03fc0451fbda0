"""One count over another, before and during, and how well their difference is known (pure).

What is counted comes in bursts: drafts of one request fare alike, answers of one sender are alike in length. So the
windows before tell by how much more than single ones they scatter (`dispersion`). Of these the last are not
asked: an onset is told late, by minutes where seats or a queue fill up first, and the change itself would pass for
noise, and for what was usual.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.evidence.dispersion import dispersion_of

Variance = Callable[[float], float]
"""Of a single one, by the ratio."""
LATE_WINDOWS = 60
"""So late, five minutes, an onset may be told."""


@dataclass(frozen=True)
class Level:
    """The same thing before and during; None where it was not measured. error: standard error of how the two differ."""

    before: float | None = None
    during: float | None = None
    error: float = 0.0

    def fell(self, least: float, sigmas: float) -> bool:
        """By so much at least, and beyond so many standard errors."""
        if self.before is None or self.during is None:
            return False
        return self.before - self.during >= max(least, sigmas * self.error) and self.during < self.before


NOT_MEASURED = Level()


@dataclass(frozen=True)
class Ratio:
    """float64[windows] each, in the order of time. least: of fewer nothing is told."""

    over: NDArray[np.float64]
    under: NDArray[np.float64]
    least: int

    @property
    def value(self) -> float | None:
        count = float(self.under.sum())
        return float(self.over.sum()) / count if count >= self.least else None

    def older(self) -> "Ratio":
        """But for the last `LATE_WINDOWS`, or half of them where there are few."""
        last = max(len(self.under) - LATE_WINDOWS, (len(self.under) + 1) // 2)
        return Ratio(self.over[:last], self.under[:last], self.least)


def of_a_share(share: float) -> float:
    """The variance of what is or is not (Bernoulli). What is counted at another moment than its whole may exceed it."""
    return max(share * (1.0 - share), 0.0)


def of_a_length(mean: float) -> float:
    """The variance of lengths that scatter by as much as their mean (geometric)."""
    return mean * mean


def compared(before: Ratio, during: Ratio, variance: Variance) -> Level:
    """With what was usual before it began, however late that is told."""
    usual = before.older()
    then, now = usual.value, during.value
    if then is None or now is None:
        return Level(then, now)
    counts = sum(1.0 / float(side.under.sum()) for side in (usual, during))
    return Level(then, now, math.sqrt(_phi(usual, variance) * variance((then + now) / 2.0) * counts))


def _phi(before: Ratio, variance: Variance) -> float:
    count = float(before.under.sum())
    mean = float(before.over.sum()) / count if count else 0.0
    single = variance(mean)
    return dispersion_of(before.over - before.under * mean, before.under * single, 1) if single > 0.0 else 1.0
