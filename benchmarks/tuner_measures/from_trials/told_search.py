"""The study's search, told after its first trials what each configuration is forecast to take.

First points: the quickest that keeps the limits, as forecasts say that are as far off as those of the trials were on
average. Prior mean: forecasts are taken off what was measured, and put back on what is believed, a third each of 0, 0.5
and 1 times, weighted by how well each explains the trials. Left out: what breaks a limit by two standard deviations of
what forecasts were off by, `LEAST_OFF` at least.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.tuner_measures.from_forecasts import twin_first
from benchmarks.tuner_measures.from_forecasts.surface_forecasts import NAMES
from benchmarks.tuner_measures.known_surfaces import Surface
from benchmarks.tuner_measures.search_rivals import Chosen, Player, constraints_of, played
from controlplane.contract.knobs import canonical_json
from tuner.search.belief import TOLD_NOISE, Belief
from tuner.search.objective import Assessment, constraint_value, score
from tuner.search.search import Candidate, Outcome, Search
from tuner.search.surrogate import Array, Posterior, Surrogate

AFTER = 4
"""Trials: the default and the usual first points."""
WEIGHTS = (0.0, 0.5, 1.0)
LEAST_OFF, SIDES = 0.1, 2.0

Told = Mapping[str, Sequence[float]]
"""By configuration, as JSON: logarithms in the order of `NAMES`, limits as multiples of them or in seconds."""
Teller = Callable[[Surface, int, Sequence[Outcome]], Told]
"""What is told of a surface, a seed and the first trials."""


class ToldSearch(Search):
    """told: nothing at first. prior: whether it is the surrogates' mean; leaves_out: whether it bounds the space."""

    told: Told | None = None
    prior = leaves_out = False

    def ahead(self) -> dict[str, Any]:
        """The first point by forecasts."""
        left = [knobs for knobs in self._candidates if super(ToldSearch, self)._fresh(knobs)]
        excess = [max(over for over, _ in self._over(knobs)) for knobs in left]
        keeps = [place for place, over in enumerate(excess) if over <= 0.0] or [int(np.argmin(excess))]
        assert self.told is not None
        return left[min(keeps, key=lambda place: self._of(left[place])[0])]

    def be_told(self, told: Told) -> None:
        self.told, self._known = told, (0, [], None)
        self._seen = {canonical_json(outcome.knobs) for outcome in self.outcomes}

    def _of(self, knobs: Mapping[str, Any]) -> Sequence[float]:
        assert self.told is not None
        return self.told[canonical_json(knobs)]

    def _over(self, knobs: Mapping[str, Any]) -> list[tuple[float, float]]:
        """By limit: by how much it is broken (log ratio), and what forecasts were off by, besides their mean."""
        found = []
        for place, name in enumerate(NAMES[1:], 1):
            off = [constraint_value(told.violations[name]) - self._of(ran)[place] for ran, told in self._runs()]
            found.append((self._of(knobs)[place] + float(np.mean(off)), max(LEAST_OFF, float(np.std(off, ddof=1)))))
        return found

    def _fresh(self, knobs: Mapping[str, Any]) -> bool:
        if self.told is None or not self.leaves_out:
            return super()._fresh(knobs)
        return super()._fresh(knobs) and all(over <= SIDES * off for over, off in self._over(knobs))

    def _belief(self, asked: Sequence[Mapping[str, Any]], *, supposed: bool = False) -> Belief | None:
        runs = self._runs()
        if self.told is None or not self.prior or not runs:
            return super()._belief(asked, supposed=supposed)
        default_s = self._default.objective_s
        objective = self._mixed(runs, [score(told.objective_s, default_s) for _, told in runs], asked, 0)
        feasible = np.zeros(len(asked))
        for place, name in enumerate(NAMES[1:], 1):
            values = [constraint_value(told.violations[name]) for _, told in runs]
            feasible = feasible + self._mixed(runs, values, asked, place).log_below()
        return Belief(objective, feasible)

    def _mixed(
        self,
        runs: Sequence[tuple[Mapping[str, Any], Assessment]],
        values: Sequence[float],
        asked: Sequence[Mapping[str, Any]],
        place: int,
    ) -> Posterior:
        ran, there = (
            np.array([self._of(knobs)[place] for knobs in several]) for several in ([one for one, _ in runs], asked)
        )
        places, at, ordered = self.space.places([one for one, _ in runs]), self.space.places(asked), self.space.ordered
        fits, logs = list[Posterior](), list[float]()
        for weight in WEIGHTS:
            left = np.array(values) - weight * ran
            model = Surrogate(places, left, noise=TOLD_NOISE, ordered=ordered)
            found = model.at(at)
            fits.append(Posterior(found.mean + weight * there, found.sd, found.noise))
            logs.append(model.evidence)
        shares = np.exp(np.array(logs) - max(logs))
        shares /= shares.sum()
        means, spreads = np.array([one.mean for one in fits]), np.array([one.sd for one in fits])
        mean: Array = shares @ means
        return Posterior(mean, np.sqrt(shares @ (spreads**2 + means**2) - mean**2), fits[0].noise)


def told_by(teller: Teller, *, points: int = 0, prior: bool = False, leaves_out: bool = False) -> Player:
    """points: so many by forecasts, before the search goes on."""

    def play(surface: Surface, seed: int) -> Iterator[Chosen]:
        constraints = constraints_of(surface.limits)
        search = ToldSearch(surface.space, surface.default, constraints=constraints, seed=seed, max_trials=40)
        search.prior, search.leaves_out = prior, leaves_out

        def ahead() -> Candidate | None:
            count = len(search.outcomes)
            if count >= AFTER and search.told is None:
                search.be_told(teller(surface, seed, search.outcomes))
            return Candidate(count, search.ahead()) if AFTER <= count < AFTER + points else None

        return played(search, surface, seed, ahead)

    return play


def dealt_anew(teller: Teller) -> Teller:
    """Each configuration that was not run has another's forecast."""

    def tell(surface: Surface, seed: int, outcomes: Sequence[Outcome]) -> Told:
        told = teller(surface, seed, outcomes)
        ran = {canonical_json(outcome.knobs) for outcome in outcomes}
        return {**told, **twin_first.dealt_anew({key: told[key] for key in told if key not in ran}, seed)}

    return tell
