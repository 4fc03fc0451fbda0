"""When the distribution of a series of counts changed: the posterior of one change point (pure).

Each tick has counts in a few classes (between edges). Before the change they are multinomial with shares that the past
tells, after it with others that are not known: both are integrated out over Dirichlet priors (Jeffreys'; the marginal
is the Dirichlet-multinomial, as in D. Barry and J. Hartigan, JASA 88, 1993). Every tick is as likely a priori. Requests
of one tick are not independent, so evidence is divided by the dispersion `phi`, see `dispersion`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from controlplane.evidence.dispersion import dispersion_of

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

JEFFREYS = 0.5
LEAST_TICKS = 3
"""Ticks that must lie on each side of the change."""


@dataclass(frozen=True)
class ChangePoint:
    """The tick from which on it is otherwise: the likeliest, and the ends of its interval (both included)."""

    tick: int
    low: int
    high: int


def change_point(counts: Counts, usual: int, level: float = 0.95) -> ChangePoint | None:
    """counts: int64[ticks, classes] in the order of time; in the first `usual` ticks nothing had changed yet, as far as
    is known, by which phi is measured. None where there are too few ticks."""
    ticks = len(counts)
    places = range(LEAST_TICKS, ticks - LEAST_TICKS + 1)
    if not places:
        return None
    running = np.concatenate([np.zeros((1, counts.shape[1])), counts.cumsum(axis=0)])
    told = np.array([_marginal(running[place]) + _marginal(running[-1] - running[place]) for place in places])
    weight = np.exp((told - told.max()) / _phi(counts[:usual]))
    chance = weight / weight.sum()
    return _interval(chance, level, LEAST_TICKS)


def _marginal(counts: Floats) -> float:
    """ln of the Dirichlet-multinomial's chance, but for what does not depend on where the series is cut."""
    prior = JEFFREYS * len(counts)
    return sum(lgamma(one + JEFFREYS) for one in counts.tolist()) - lgamma(float(counts.sum()) + prior)


def _phi(counts: Counts) -> float:
    """The largest of the classes' dispersions."""
    total = counts.sum(axis=1)
    if len(counts) < 2 or not total.any():
        return 1.0
    shares = counts.sum(axis=0) / total.sum()
    found: Sequence[float] = [
        dispersion_of(counts[:, i] - total * share, total * share * (1.0 - share), 1) for i, share in enumerate(shares)
    ]
    return max(1.0, *found)


def _interval(chance: Floats, level: float, first: int) -> ChangePoint:
    """From the smallest set of ticks that has this chance, the likeliest ones first."""
    order = np.argsort(-chance, kind="stable")
    enough = int(np.searchsorted(chance[order].cumsum(), level)) + 1
    those = order[:enough]
    return ChangePoint(first + int(order[0]), first + int(those.min()), first + int(those.max()))
