"""A quantile of a mixture of histograms, and what each change of the mixture is worth to it (pure).

The requests of a span are a mixture of groups (nodes, prompt buckets, ...), F = sum of w_g F_g. Between two spans the
shares w change (the *mix*) and the distributions F_g do (*within* a group). Each of these changes is a player; what a
set of them does to the quantile is the quantile of the mixture in which just these have changed, and what a player is
worth is its Shapley value: the mean, over all orders, of what it adds to those that came before it (L. S. Shapley, "A
value for n-person games", 1953; for statistics of distributions: A. F. Shorrocks, J. Econ. Inequality 11, 2013).

Guarantee: the worths add up to the shift of the quantile, but for rounding.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import AXIS_MIN, BASE

Floats = NDArray[np.float64]

LEAST = 12
"""Requests that a group must have on each side to have a distribution of its own there; with fewer it only comes or
goes, which is a change of the mix. A rare group has no more in the half minute after which a page is told."""


def quantiles(counts: Floats, q: Floats | float, low: int) -> Floats:
    """float64[rows], seconds: of histograms float64[rows, width] whose first column is at place `low` of the axis.
    Within a bucket values are taken as even on the logarithmic axis; NaN for an empty row."""
    cumulative = counts.cumsum(axis=1)
    wanted = np.asarray(q) * cumulative[:, -1]
    place = np.minimum((cumulative < wanted[:, None]).sum(axis=1), counts.shape[1] - 1)
    rows = np.arange(len(counts))
    inside = counts[rows, place]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = 1.0 - (cumulative[rows, place] - wanted) / inside
    found: Floats = np.power(BASE, low + AXIS_MIN + place + np.clip(part, 0.0, 1.0))
    return found


def slow_levels(counts: Floats, q: Floats | float, low: int) -> Floats:
    """float64[rows]: of the same histograms the mean of ln of the seconds above the quantile; NaN for an empty row.

    Of a few dozen requests of two kinds, as of those that hit the cache and those that did not, the quantile itself
    leaps from one kind to the other as chance has it; the mean of all that are slower moves little.
    """
    return _mean_beyond(counts, q, _logs(counts.shape[1], low))


def slow_means(counts: Floats, q: Floats | float, low: int) -> Floats:
    """float64[rows]: the same of the seconds themselves."""
    return _mean_beyond(counts, q, np.exp(_logs(counts.shape[1], low)))


def _logs(width: int, low: int) -> Floats:
    return np.asarray((low + AXIS_MIN + np.arange(width) + 0.5) * math.log(BASE), dtype=np.float64)


def _mean_beyond(counts: Floats, q: Floats | float, values: Floats) -> Floats:
    cumulative = counts.cumsum(axis=1)
    beyond = np.clip(cumulative - (np.asarray(q) * cumulative[:, -1])[:, None], 0.0, counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = beyond @ values / beyond.sum(axis=1)
    return found


def worths(before: Floats, during: Floats, q: float, low: int) -> tuple[float, Floats]:
    """The quantile before, and what each change is worth: float64[1 + groups], the mix first.

    before, during: float64[groups, width], counts. Both sides must have requests.
    """
    counts = [side.sum(axis=1) for side in (before, during)]
    shares = [count / count.sum() for count in counts]
    own = [_shapes(before, counts[0]), _shapes(during, counts[1])]
    # Who has no distribution on one side has that of the other: it comes, or goes, and is not slower.
    few = [count < LEAST for count in counts]
    gone, new = few[1][:, None], few[0][:, None]
    then = np.where(new & ~gone, own[1], own[0])
    now = np.where(gone | (new & gone), own[0], own[1])
    both_few = (few[0] & few[1])[:, None]
    then, now = np.where(both_few, _joint(before, during), then), np.where(both_few, _joint(before, during), now)
    made = np.concatenate([_mixtures(share, then, now) for share in shares])
    value = quantiles(made, q, low)
    return float(value[0]), _shapley(value, len(before) + 1)


def _shapes(counts: Floats, total: Floats) -> Floats:
    found: Floats = counts / np.maximum(total, 1.0)[:, None]
    return found


def _joint(before: Floats, during: Floats) -> Floats:
    both = before + during
    return _shapes(both, both.sum(axis=1))


def _mixtures(share: Floats, then: Floats, now: Floats) -> Floats:
    """float64[2**groups, width]: row s is the mixture in which group g has changed where bit g of s is set."""
    made = np.zeros((1, then.shape[1]))
    for weight, old, new in zip(share, then, now, strict=True):
        made = np.concatenate([made + weight * old, made + weight * new])
    return made


def _shapley(value: Floats, players: int) -> Floats:
    """value: float64[2**players], by the set of the players that have changed; the mix is the highest bit."""
    sets, size = _sets(players)
    worth = np.empty(players)
    for player in range(players):
        without = sets[(sets >> player) & 1 == 0]
        gained = value[without | (1 << player)] - value[without]
        chance = [1.0 / (players * math.comb(players - 1, int(one))) for one in size[without]]
        worth[player] = float(np.dot(chance, gained))
    return np.concatenate([worth[-1:], worth[:-1]])


@cache
def _sets(players: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All sets of so many players, and how many are in each."""
    sets = np.arange(1 << players)
    size = sum((sets >> player) & 1 for player in range(players))
    return sets, np.asarray(size, dtype=np.int64)
