"""Scores: what one request says of a change, by its place in the distribution that was usual. Pure.

A score is a function of the axis position, of mean 0 among the usual requests of its stratum, and bounded, so that no
single request says much. The mean score of a tick is what the detector watches (`shift_scan`):

- `location`: the normal score of the request's rank (van der Waerden). For a shift of a lognormal distribution it is
  the efficient score: nothing that is in the data is thrown away.
- `tail`: the log likelihood ratio of a part of the requests that got much slower, less multiples of `location` and its
  square that make it blind to a shift of all, to either side.

What a change would do to a mean score is computed from the same usual distribution (`after`), whatever its shape.
"""

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import BASE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NORMAL = NormalDist()
CLIP = 2.6
KERNEL = np.array([NORMAL.pdf(place / 3.0) for place in range(-9, 10)])
KERNEL /= KERNEL.sum()
SLOW_PART, SLOW_BY, TAIL_CLIP = 0.1, 2.0, 3.0
"""What the score by tail is made for: so many of the requests are slower by so many standard deviations."""
SMALL_SHIFT = 1.15


@dataclass(frozen=True)
class Change:
    """A share of the requests takes `factor` times as long."""

    factor: float
    share: float = 1.0


@dataclass(frozen=True)
class Scoring:
    """One stratum's scores. table: float64[axis]; variance: of one request's score; shares: float64[axis], the usual
    distribution."""

    table: Floats
    variance: float
    shares: Floats

    def after(self, change: Change) -> float:
        """The mean score of the usual requests after the change."""
        return change.share * float(self.after_all((change.factor,))[0])

    def after_all(self, factors: tuple[float, ...]) -> Floats:
        """The same where all requests take each of these times as long, float64[factors]."""
        found = self._known.get(factors)
        if found is None:
            found = self._known[factors] = np.array([self.shares @ one for one in self._each_after(factors)])
        return found

    def variance_after(self, factors: tuple[float, ...]) -> Floats:
        """Of one request's score where all take each of these times as long, float64[factors]."""
        return np.array([self.shares @ one**2 - (self.shares @ one) ** 2 for one in self._each_after(factors)])

    def _each_after(self, factors: tuple[float, ...]) -> Floats:
        """float64[factors, axis], 0 where nothing is usual."""
        moved = np.zeros((len(factors), self.table.size))
        moved[:, self._held] = _moved(self.table, np.arange(self.table.size)[self._held], factors)
        return moved

    @cached_property
    def skewness(self) -> float:
        """Of one request's score: 0 where they do not differ."""
        return float(self.shares @ self.table**3) / self.variance**1.5 if self.variance else 0.0

    @cached_property
    def _known(self) -> dict[tuple[float, ...], Floats]:
        """What was asked for: the lines of a comparison share their scores."""
        return {}

    @cached_property
    def _held(self) -> slice:
        """The part of the axis that has any share."""
        some = np.flatnonzero(self.shares)
        return slice(int(some[0]), int(some[-1]) + 1)


def location(counts: Ints) -> Scoring:
    """counts: int64[axis], not empty."""
    smooth = _smooth(counts)
    return _centred(_normal_scores(smooth), smooth / smooth.sum())


def tail(counts: Ints) -> Scoring:
    """counts: int64[axis], not empty."""
    smooth = _smooth(counts)
    shares = smooth / smooth.sum()
    usual = _centred(_normal_scores(smooth), shares)
    slower = np.exp(SLOW_BY * (_normal_scores(smooth, TAIL_CLIP) - 0.5 * SLOW_BY))
    steep = _centred(np.log1p(SLOW_PART * (slower - 1.0)), shares)
    others = [usual, _centred(usual.table**2, shares)]
    shifts = [Change(SMALL_SHIFT), Change(1.0 / SMALL_SHIFT)]
    moved = np.array([[one.after(shift) for one in others] for shift in shifts])
    parts = np.linalg.lstsq(moved, np.array([steep.after(shift) for shift in shifts]), rcond=1e-6)[0]
    return _centred(steep.table - sum(part * one.table for part, one in zip(parts, others, strict=True)), shares)


def _centred(table: Floats, shares: Floats) -> Scoring:
    """With mean 0 and variance 1 where the requests differ at all."""
    centred = table - shares @ table
    variance = float(shares @ centred**2)
    if variance < 1e-12:
        return Scoring(np.zeros_like(table), 0.0, shares)
    return Scoring(centred / np.sqrt(variance), 1.0, shares)


def _smooth(counts: Ints) -> Floats:
    """As if each request's latency were known to some 7 %: where requests hardly differ, a drift of one of the axis'
    buckets must not look like the end of the world."""
    return np.convolve(counts.astype(np.float64), KERNEL, mode="same")


def _normal_scores(counts: Floats, clip: float = CLIP) -> Floats:
    below = np.cumsum(counts) - counts
    rank = (below + 0.5 * counts + 0.5) / (counts.sum() + 1.0)
    each, place = np.unique(rank, return_inverse=True)  # Most of the axis is empty.
    return np.clip([NORMAL.inv_cdf(one) for one in each.tolist()], -clip, clip)[place]


def _moved(table: Floats, places: Ints, factors: tuple[float, ...]) -> Floats:
    """The score of a request at each position when it takes so many times as long: float64[factors, places]."""
    buckets = np.array([np.log(factor) / np.log(BASE) for factor in factors])
    return np.asarray(np.interp(places + buckets[:, None], np.arange(table.size), table))
