"""What the pool's twin forecasts of a study's configurations, and a surrogate that begins with it. Pure.

Guarantee: a forecast decides nothing by itself: it is the mean that a surrogate begins with, times 0, a half or 1, each
as likely beforehand and weighted by how well it explains the runs. A forecast that runs do not bear out is forgotten
with them, and what it says of no figure (a limit, an objective) is believed as without any. Only ratios are taken: how
fast the twin's machine is does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.planning.trial_leases import ForecastAhead
from tuner.search.objective import Assessment, constraint_value
from tuner.search.space import Space
from tuner.search.surrogate import Array, Posterior, Surrogate

TWIN_NOISE = 0.02
"""How far apart (log ratio) two forecasts of about the same configuration are, by the requests' order alone."""
WEIGHTS = (0.0, 0.5, 1.0)
"""Times the forecast is believed."""
_JITTER = 1e-8
FEWEST = 8
"""Of fewer forecasts nothing is told about the configurations between them."""


class Forecasts:
    """Log ratios to the default by figure (an objective's or a limit's name), told of some configurations and filled
    in between them."""

    def __init__(self, space: Space, told: Sequence[ForecastAhead]) -> None:
        places = space.places([one.knobs for one in told])
        self._between: dict[str, Surrogate] = {}
        for name in sorted({name for one in told for name in one.ratios}):
            of = [number for number, one in enumerate(told) if name in one.ratios]
            if len(of) >= FEWEST:
                values = np.array([told[number].ratios[name] for number in of])
                self._between[name] = Surrogate(places[of], values, noise=TWIN_NOISE, ordered=space.ordered)

    def __contains__(self, name: str) -> bool:
        return name in self._between

    def at(self, name: str, places: Array) -> Array:
        """The forecasts of this figure at these places."""
        return self._between[name].at(places).mean

    def best(
        self,
        space: Space,
        candidates: Sequence[Mapping[str, Any]],
        default: Mapping[str, Any],
        measured: Assessment,
        objective: str,
    ) -> Mapping[str, Any] | None:
        """The quickest of those that keep the limits by what the default's run was and forecasts say; where none does,
        the nearest to it. None where the objective is not forecast."""
        if objective not in self or not candidates:
            return None
        places, own = space.places(candidates), space.places([default])
        excess = np.full(len(candidates), -np.inf)
        for name, violation in measured.violations.items():
            if name in self:
                ratio = self.at(name, places) - self.at(name, own)
                excess = np.maximum(excess, constraint_value(violation) + ratio)
        keeps = np.flatnonzero(excess <= 0.0)
        if not len(keeps):
            return candidates[int(excess.argmin())]
        return candidates[int(keeps[self.at(objective, places[keeps]).argmin()])]


class Guided:
    """As `Surrogate`, with forecasts for the mean that it begins with."""

    def __init__(
        self,
        places: Array,
        values: Array,
        told: Callable[[Array], Array],
        *,
        noise: float,
        ordered: NDArray[np.bool_],
    ) -> None:
        """told: what is forecast, wherever it is asked for."""
        self._told, ran = told, told(places)
        self._fits = [Surrogate(places, values - times * ran, noise=noise, ordered=ordered) for times in WEIGHTS]
        logs = np.array([one.evidence for one in self._fits])
        share = np.exp(logs - logs.max())
        self._share = share / share.sum()
        self.noise = float(np.exp(self._share @ np.log([one.noise for one in self._fits])))

    def at(self, places: Array) -> Posterior:
        """All weights together, as far as each explains the runs."""
        there = self._told(places)
        found = [one.at(places) for one in self._fits]
        means = np.array([one.mean + times * there for one, times in zip(found, WEIGHTS, strict=True)])
        seconds = np.array([one.sd**2 for one in found]) + means**2
        mean: Array = self._share @ means
        return Posterior(mean, np.sqrt(np.maximum(self._share @ seconds - mean**2, _JITTER)), self.noise)

    def draw(self, places: Array, random: np.random.Generator) -> Array:
        """The values of one function, drawn from the belief, at these places together."""
        number = int(random.choice(len(self._fits), p=self._share))
        drawn: Array = self._fits[number].draw(places, random) + WEIGHTS[number] * self._told(places)
        return drawn
