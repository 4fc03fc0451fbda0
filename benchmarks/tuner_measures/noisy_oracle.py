"""What one would take who has measured every configuration: how good a choice a surface's noise allows.

It takes the fastest whose mean figures held, as the rivals do; or the one of the largest gain on the default times the
probability that its limits hold, which it takes from the noise that a search is told. It learns nothing of one
configuration from another; a search with a model may do better.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.tuner_measures.known_surfaces import Surface, configurations
from tuner.search.belief import TOLD_NOISE
from tuner.search.objective import constraint_value, mean_assessment, score

REPEATS = 20
"""Choices a seed."""


def measure(make: Callable[[int], Surface], seeds: int, runs: int) -> None:
    drawn = [
        (surface.regret(fastest), surface.regret(worthiest))
        for surface in map(make, range(seeds))
        for turn in range(REPEATS)
        for fastest, worthiest in [choices(surface, runs, turn)]
    ]
    low, high = np.quantile(np.array(drawn), (0.5, 0.9), axis=0)
    cells = " | ".join(f"{100 * one:.0f} / {100 * other:.0f} %" for one, other in zip(low, high, strict=True))
    print(f"| {make(0).name} | {runs} | {cells} |", flush=True)


def choices(surface: Surface, runs: int, seed: int) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The fastest that held (without one, the default), and the one that is worth most."""
    random = np.random.default_rng(seed)
    default = mean_assessment([surface.measure(surface.default, random) for _ in range(runs)])
    fastest, worthiest = (0.0, surface.default), (0.0, surface.default)
    for knobs in configurations(surface.space):
        told = mean_assessment([surface.measure(knobs, random) for _ in range(runs)])
        gain = -score(told.objective_s, default.objective_s)
        over = np.array([constraint_value(told.violations[name]) for name in surface.limits])
        keeps = float(np.prod(stats.norm.cdf(-over / (TOLD_NOISE / np.sqrt(runs)))))
        if told.feasible:
            fastest = max(fastest, (gain, knobs), key=lambda one: one[0])
        worthiest = max(worthiest, (gain * keeps, knobs), key=lambda one: one[0])
    return fastest[1], worthiest[1]
