"""Seconds that go with two counts: which of the two takes what share of them. Pure.

Of each window there are its seconds and two counts (operations and bytes, say). The seconds are fitted as the sum of
both, each at a cost that is not negative, by least squares weighted by 1 / seconds, as errors grow with what is
measured. The interval is of a bootstrap of contiguous blocks of windows (H. Kuensch, Ann. Stat. 17, 1989). Where both
counts always come in the same proportion nothing can tell them apart, and the interval says so: it reaches from next to
0 to next to 1. Where both go on at once the share lies between what the seconds would lose if the first cost nothing
and what the first takes by itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLOCKS = 20
FEWEST_WINDOWS = 2 * BLOCKS
RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class FirstShare:
    """Of the seconds, what goes with the first count; the rest goes with the second. low, high: of its interval."""

    share: float
    low: float
    high: float


def first_share(windows: NDArray[np.float64], seed: int) -> FirstShare | None:
    """windows: in their order, each its seconds, first and second count. None of fewer than `FEWEST_WINDOWS` that have
    some of each."""
    told = windows[(windows > 0).all(axis=1)]
    if len(told) < FEWEST_WINDOWS:
        return None
    seconds, counts = told[:, 0], told[:, 1:] / told[:, 1:].mean(axis=0)
    first, second = counts.T
    of_window = np.stack([first * first / seconds, first * second / seconds, second * second / seconds, first, second])
    of_block = np.stack([block.sum(axis=1) for block in np.array_split(of_window, BLOCKS, axis=1)], axis=1)
    drawn = np.random.default_rng(seed).integers(BLOCKS, size=(RESAMPLES, BLOCKS))
    tail = 100 * (1 - LEVEL) / 2
    lows, highs = _shares(of_block[:, drawn].sum(axis=2))
    share = float(np.mean(_shares(of_block.sum(axis=1, keepdims=True))))
    low, high = float(np.percentile(lows, tail)), float(np.percentile(highs, 100 - tail))
    return FirstShare(share, min(low, share), max(high, share))


def _shares(sums: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of fits by their sums, the least and the most that the first's share may be: the same, but where the counts come
    in one proportion. Counts are scaled to a mean of 1, so that costs are seconds."""
    aa, ab, bb, a, b = sums
    determinant = aa * bb - ab * ab
    apart = determinant > 1e-9 * aa * bb
    safe = np.where(apart, determinant, 1.0)
    first, second = (a * bb - b * ab) / safe, (b * aa - a * ab) / safe
    inside = apart & (first > 0) & (second > 0)
    # With one of them at 0 the other's cost is a / aa, or b / bb, and explains a * a / aa, or b * b / bb.
    alone = np.where(a * a / aa >= b * b / bb, 1.0, 0.0)
    whole = np.where(inside, first + second, 1.0)
    share = np.where(inside, first / whole, alone)
    return np.where(apart, share, 0.0), np.where(apart, share, 1.0)
