"""What each part of a request's time adds to the tail: means of the parts over the slowest requests (pure).

Of the requests at and above a quantile, E[part | total >= quantile] is taken before and during. The parts of a request
add up to its total, so these differences add up, exactly, to the growth of the tail's mean (the expected shortfall,
whose split by conditional means is Euler's: D. Tasche, "Risk contributions and performance measurement", 1999).

It needs single requests with their parts: sketches of the parts tell means, and not what the slow requests waited for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.evidence.order_statistics import Estimate
from controlplane.evidence.shifts.quantile_shift import quantile_of_t

Floats = NDArray[np.float64]

LEAST_TAIL = 20
"""Requests that the tail must have on each side; the quantile is lowered until it has."""
LEAST = 2 * LEAST_TAIL
BLOCKS = 12
REPLICATES = 100


@dataclass(frozen=True)
class TailPart:
    """Means over the tail before and during, and by how much the tail grew by it; all in seconds."""

    before: float
    during: float
    grown: Estimate


@dataclass(frozen=True)
class TailParts:
    """`q`: the quantile from which on requests are in the tail. The last part is what the others leave of the total."""

    q: float
    before: float
    during: float
    parts: Sequence[TailPart]

    @property
    def grown(self) -> float:
        return self.during - self.before


@dataclass(frozen=True)
class Timed:
    """Requests in the order of time: total float64[requests], parts float64[requests, parts], seconds."""

    total: Floats
    parts: Floats

    def take(self, rows: NDArray[np.int64]) -> "Timed":
        return Timed(self.total[rows], self.parts[rows])


def tail_parts(before: Timed, during: Timed, q: float, seed: int = 0, level: float = 0.95) -> TailParts | None:
    """None where a side has fewer than `LEAST` requests. Intervals hold at once for all parts."""
    count = min(len(before.total), len(during.total))
    if count < LEAST:
        return None
    q = min(q, 1.0 - LEAST_TAIL / count)
    then, now = _means(before, q), _means(during, q)
    chance = np.random.default_rng(seed)
    drawn = np.array([_means(_drawn(during, chance), q) - _means(_drawn(before, chance), q) for _ in range(REPLICATES)])
    z = quantile_of_t(1.0 - (1.0 - level) / 2.0 / drawn.shape[1], BLOCKS - 1)
    error = z * drawn.std(axis=0, ddof=1)
    parts = []
    for old, new, wide in zip(then.tolist(), now.tolist(), error.tolist(), strict=True):
        parts.append(TailPart(old, new, Estimate(new - old, new - old - wide, new - old + wide)))
    return TailParts(q, float(then.sum()), float(now.sum()), parts)


def _means(requests: Timed, q: float) -> Floats:
    """float64[parts + 1]: of the slowest, their parts and what is left of their totals."""
    slow = len(requests.total) - max(round((1.0 - q) * len(requests.total)), 1)
    rows = np.argpartition(requests.total, slow)[slow:] if slow > 0 else np.arange(len(requests.total))
    parts = requests.parts[rows].mean(axis=0)
    return np.append(parts, requests.total[rows].mean() - parts.sum())


def _drawn(requests: Timed, chance: np.random.Generator) -> Timed:
    """As many blocks of neighbouring requests, with replacement."""
    edges = np.linspace(0, len(requests.total), BLOCKS + 1).astype(np.int64)
    chosen = chance.integers(0, BLOCKS, BLOCKS)
    return requests.take(np.concatenate([np.arange(edges[block], edges[block + 1]) for block in chosen]))
