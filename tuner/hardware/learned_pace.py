"""How many times its own figures' seconds each part of a step takes, learned from measured times between tokens.

Learned by least absolute relative errors, none negative (iteratively reweighted; Lawson and Hanson's solver by scipy):
a table of others has rows that were measured wrong, and squares would follow those. Each factor is drawn towards what
others publish, weakly: where rows tell nothing of it (an engine, a width that none of them has) that is what is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from tuner.hardware.accelerators import ENGINES
from tuner.hardware.steady_batch import Deployment, Load, Parts, parts_of, prompt_parts

PUBLISHED: Parts = (1.25, 1.25, 2.2, 2.2, 1.25, 10.0, 1.26, 32.0, 32.0, 32.0)
"""In the order of `Pace.each`: 0.8 of the bandwidth (aiconfigurator); 0.45 of the products, 32 us a layer, 126 us a
step, 4 us a request and 46 us an output token (BLIS), between which 10 us for a request's step stand."""
_DRAWN = 0.1
"""How much each of `PUBLISHED` weighs beside a row; found on the table of docs/benchmarks.md."""
_ROUNDS = 40
_SMALLEST = 0.02
"""A relative error below which a row weighs no more for it."""
TRUST_AFTER = 1.0
"""Measured points after which one believes them as much as the figures of others."""


@dataclass(frozen=True)
class Measured:
    """A time between tokens, seconds, under a load that never ended."""

    deployment: Deployment
    load: Load
    tpot_s: float


@dataclass(frozen=True)
class Pace:
    """each: a factor for each of `steady_batch.NAMES`, then a layer's launches of each engine."""

    each: Parts

    def tpot_s(self, deployment: Deployment, load: Load) -> float:
        """Mean seconds between a request's tokens, beyond the first."""
        return self._seconds(parts_of(deployment, load, ENGINES))

    def prompt_s(self, deployment: Deployment, load: Load) -> float:
        """Seconds that a prompt takes alone. Not held against anything measured."""
        return self._seconds(prompt_parts(deployment, load, ENGINES))

    def _seconds(self, parts: Parts) -> float:
        return sum(factor * part for factor, part in zip(self.each, parts, strict=True))


def learned(rows: Sequence[Measured]) -> Pace:
    """From at least one row."""
    parts = np.array([parts_of(one.deployment, one.load, ENGINES) for one in rows])
    published = np.array(PUBLISHED)
    relative = parts / np.array([one.tpot_s for one in rows])[:, None] * published
    weights = np.ones(len(rows))
    times = np.ones(len(published))
    for _ in range(_ROUNDS):
        drawn = _DRAWN * float(np.sqrt(np.mean(weights**2)))
        wanted = np.concatenate([weights, np.full(len(published), drawn)])
        times, _ = nnls(np.vstack([relative * weights[:, None], np.eye(len(published)) * drawn]), wanted)
        weights = 1.0 / np.sqrt(np.maximum(np.abs(relative @ times - 1.0), _SMALLEST))
    return Pace(tuple(float(one) for one in times * published))


def calibration(pace: Pace, points: Sequence[Measured]) -> float:
    """By how much everything measured at one place is slower than forecast, drawn towards 1 where points are few.

    The geometric mean of measured over forecast, its logarithm times n / (n + TRUST_AFTER); 1 without points.
    """
    logs = [np.log(one.tpot_s / pace.tpot_s(one.deployment, one.load)) for one in points]
    return float(np.exp(sum(logs) / (len(logs) + TRUST_AFTER)))


PACE = Pace((0.9778, 1.208, 1.483, 2.656, 1.436, 24.08, 1.466, 71.64, 45.99, 50.54))
"""Learned of the table's 229 rows (docs/benchmarks.md, "Other hardware")."""
SEEN = frozenset({"h100", "h200"})
"""Accelerators with enough rows there."""
ERROR_SEEN, ERROR_ELSEWHERE = 0.12, 0.4
"""Nine of ten held-out rows were within the first; five rows of a GB200 within about the second."""
