"""One count over another, before and during, and how well their difference is known (pure).

What is counted comes in bursts: drafts of one request fare alike, answers of one sender are alike in length. So the
windows before tell by how much more than single ones they scatter (`dispersion`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.evidence.dispersion import dispersion_of

Variance = Callable[[float], float]
"""Of a single one, by the ratio."""


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


def of_a_share(share: float) -> float:
    """The variance of what is or is not (Bernoulli)."""
    return share * (1.0 - share)


def of_a_length(mean: float) -> float:
    """The variance of lengths that scatter by as much as their mean (geometric)."""
    return mean * mean


def difference_error(before: Ratio, during: Ratio, variance: Variance) -> float:
    """Standard error of the ratios' difference; 0 where either is not known."""
    then, now = before.value, during.value
    if then is None or now is None:
        return 0.0
    single = variance(then)
    phi = dispersion_of(before.over - before.under * then, before.under * single, 1) if single > 0.0 else 1.0
    counts = sum(1.0 / float(side.under.sum()) for side in (before, during))
    return math.sqrt(phi * variance((then + now) / 2.0) * counts)
