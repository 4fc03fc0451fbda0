"""What the noise of nodes leaves to be known of a canary, were that noise known exactly: the limit of judging by means.

    python -m benchmarks.rollout_measures.noise_limit

A canary's log latency beside the other nodes' mean, by half minutes, is an unknown level, sampling and what each
node wanders by itself (`canary_pool.Shape`). The variance of the change since the canary is that of generalised least
squares under the true covariance. A claim is shown at one look, by the likelihood ratio against what is tolerated.
"""

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from benchmarks.rollout_measures.canary_pool import Shape

Floats = NDArray[np.float64]

PAST_S, STEP_S = 14400.0, 30.0
TOLERATED = math.log(1.1)
NATS_WORSE, NATS_NOT_WORSE = math.log(1 / (0.005 / 4 * 0.6 / 4)), math.log(1 / 0.01)
"""Of one quantile, of three metrics and the share served: half of alpha is the canary's. For *not worse* it is all."""


def standard_error(shape: Shape, judged_s: float) -> float:
    """Of the canary's change, in log latency, after so many seconds."""
    before, after = round(PAST_S / STEP_S), round(judged_s / STEP_S)
    at_s = np.arange(before + after) * STEP_S
    apart_s = np.abs(at_s[:, None] - at_s[None, :])
    share = 1.0 / shape.nodes
    total = np.eye(at_s.size) * shape.sigma**2 / (STEP_S * shape.rate * share * (1.0 - share))
    for sd, tau_s in (shape.own, *shape.drift):
        total += sd**2 / (1.0 - share) * _means(apart_s, tau_s)
    sides = np.stack([np.ones(at_s.size), np.arange(at_s.size) >= before], axis=1).astype(np.float64)
    return math.sqrt(np.linalg.inv(sides.T @ np.linalg.solve(total, sides))[1, 1])


def _means(apart_s: Floats, tau_s: float) -> Floats:
    """The covariance of an Ornstein-Uhlenbeck process of variance 1, of means over steps."""
    x = STEP_S / tau_s
    found = np.exp(-np.maximum(apart_s - STEP_S, 0.0) / tau_s) * (np.expm1(-x) / x) ** 2
    np.fill_diagonal(found, 2.0 * (x + np.expm1(-x)) / x**2)
    return np.asarray(found)


def shown(apart: float, nats: float) -> float:
    """How often a change that lies `apart` standard errors beyond what is tolerated is shown with so much evidence."""
    return NormalDist().cdf(apart / 2.0 - nats / apart)


def main() -> None:
    factors = (1.15, 1.18, 1.2, 1.25)
    worse_heads = " | ".join(f"x{factor} worse" for factor in factors)
    print(f"| nodes drift by | judged for | standard error | equal: not worse | {worse_heads} |")
    print("|---" * (4 + len(factors)) + "|")
    for name, drift in (("1 %", Shape().drift), ("4 %", ((0.02, 1200.0), (0.03, 7200.0)))):
        for judged_s in (300.0, 1800.0, 3600.0, 14400.0):
            error = standard_error(replace(Shape(), drift=drift), judged_s)
            worse = [shown((math.log(factor) - TOLERATED) / error, NATS_WORSE) for factor in factors]
            cells = [f"{100 * one:.0f} %" for one in (shown(TOLERATED / error, NATS_NOT_WORSE), *worse)]
            print(f"| {name} | {judged_s:.0f} s | {100 * error:.1f} % | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
