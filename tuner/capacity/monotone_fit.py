"""Isotonic regression of how far limits are exceeded, in the load, and where it crosses zero. Pure.

Guarantee: what is fitted never falls as the load rises, whatever the noise of single replays; where several limits are
given, each is fitted by itself, and the one that is broken first decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MonotoneFit:
    """`loads`: ascending. `excess`: of each limit by name, the logarithm of measured / limit as it was fitted there."""

    loads: Floats
    excess: Mapping[str, Floats]

    @classmethod
    def of(cls, loads: Sequence[float], excess: Sequence[Mapping[str, float]], weights: Sequence[float]) -> MonotoneFit:
        """At least one load; each says the same limits. `weights`: how much each replay counts."""
        order = np.argsort(loads, kind="stable")
        weighed = np.asarray(weights, dtype=float)[order]
        told = {name: np.asarray([one[name] for one in excess], dtype=float)[order] for name in excess[0]}
        fitted = {name: isotonic_regression(values, weights=weighed).x for name, values in told.items()}
        return cls(np.asarray(loads, dtype=float)[order], fitted)

    @property
    def worst(self) -> Floats:
        """Of the limits together, by load."""
        found: Floats = np.max(np.stack(list(self.excess.values())), axis=0)
        return found

    @property
    def kept(self) -> int:
        """So many of the loads, the smallest, keep all limits."""
        return int(np.count_nonzero(self.worst <= 0))

    @property
    def edges(self) -> tuple[float, float]:
        """The largest load that keeps the limits and the smallest that does not: 0 and infinity where none does."""
        kept = self.kept
        return (
            float(self.loads[kept - 1]) if kept else 0.0,
            float(self.loads[kept]) if kept < len(self.loads) else math.inf,
        )

    @property
    def crossing(self) -> float:
        """The load at which the limits are just kept, between the edges by their logarithms; else the edge that tells:
        0, or infinity."""
        low, high = self.edges
        if not low:
            return 0.0
        if high == math.inf:
            return math.inf
        worst = self.worst
        below, above = float(worst[self.kept - 1]), float(worst[self.kept])
        found = low * math.exp(math.log(high / low) * -below / (above - below))
        return min(max(found, low), high)  # The last digit may lie beyond an edge.

    @property
    def broken_first(self) -> str | None:
        """The limit that is exceeded by most at the smallest load that breaks one."""
        kept = self.kept
        if kept == len(self.loads):
            return None
        return max(self.excess, key=lambda name: float(self.excess[name][kept]))
