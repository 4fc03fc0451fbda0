"""The score by which a quantile is watched: whether a request lies above what was usual at it. Pure. See `scores`."""

from math import log

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import BASE
from controlplane.evidence.scores import KERNEL, Change, Scoring


def above(counts: NDArray[np.int64], q: float) -> Scoring:
    """counts: int64[axis], not empty: the usual requests; q: within 0 and 1. Smooth by as much as `scores`."""
    smooth = np.convolve(counts.astype(np.float64), KERNEL, mode="same")
    shares = smooth / smooth.sum()
    beyond = (np.arange(counts.size) > int(np.searchsorted(np.cumsum(shares), q))).astype(np.float64)
    half = KERNEL.size // 2
    table = np.convolve(np.pad(beyond, half, mode="edge"), KERNEL, mode="valid")
    centred = table - shares @ table
    variance = float(shares @ centred**2)
    if variance < 1e-12:
        return Scoring(np.zeros_like(table), 0.0, shares)
    return Scoring(centred / np.sqrt(variance), 1.0, shares)


def spread_after(scoring: Scoring, change: Change) -> float:
    """The variance of the usual requests' score after a change; 1 without one, where requests differ at all.

    Few requests lie above a high quantile: after a small slowdown it is several times as many, and the score scatters
    as much more.
    """
    moved = np.interp(
        np.arange(scoring.table.size) + log(change.factor) / log(BASE), np.arange(scoring.table.size), scoring.table
    )
    squares = change.share * float(scoring.shares @ moved**2) + (1.0 - change.share) * scoring.variance
    return squares - scoring.after(change) ** 2
