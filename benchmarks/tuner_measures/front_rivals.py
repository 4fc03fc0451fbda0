"""How much of the true front a search of several objectives covers, by trials, beside random search and Optuna's own.

One or two of a surface's limits are made objectives: end-to-end time against them, under the limit that is left. Each
player measures the default, then one configuration a trial, and says which front it would offer. Of that what truly
keeps the limit counts, by its true figures: hypervolume below the corner that is a tenth worse than the worst of the
true front in each objective (logarithms), as a share of the true front's.
"""

from __future__ import annotations

import math
import random as plain_random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import optuna

from benchmarks.tuner_measures.known_surfaces import Surface
from benchmarks.tuner_measures.search_regret import AFTER
from benchmarks.tuner_measures.search_rivals import Runs, constraints_of, drawn
from controlplane.contract.knobs import canonical_json
from tuner.search.front import beaten, hypervolume
from tuner.search.objective import Assessment, constraint_value, score
from tuner.search.search import Search
from tuner.search.surrogate import Array

CORNER = math.log(1.1)
Front = list[dict[str, Any]]


@dataclass(frozen=True)
class Objectives:
    """A surface of which the limits `others` are objectives."""

    surface: Surface
    others: tuple[str, ...]

    @property
    def limits(self) -> list[str]:
        return [name for name in self.surface.limits if name not in self.others]

    def measure(self, knobs: Mapping[str, Any], noise: np.random.Generator, *, fresh: bool = False) -> Assessment:
        found = self.surface.measure(knobs, noise, fresh=fresh)
        if found.objective_s is None:
            return found
        kept = {name: excess for name, excess in found.violations.items() if name not in self.others}
        return Assessment(found.objective_s, kept, {name: 1.0 + found.violations[name] for name in self.others})

    def truth(self, knobs: Mapping[str, Any]) -> list[float] | None:
        """Logarithms of all; None of what fails or breaks the limit."""
        return self.truth_at(canonical_json(knobs))

    def truth_at(self, key: str) -> list[float] | None:
        """As `truth`, by the canonical configuration."""
        found = self.surface.fresh[key]
        if found.fails or any(found.limits[name] > 1.0 for name in self.limits):
            return None
        return [math.log(found.objective), *(math.log(found.limits[name]) for name in self.others)]

    def scale(self) -> tuple[Array, float]:
        """The corner, and what the true front covers below it."""
        told = [self.surface.fresh[key] for key in self.surface.fresh]
        kept = [one for one in told if not one.fails and all(one.limits[name] <= 1.0 for name in self.limits)]
        points = np.log([[one.objective, *(one.limits[name] for name in self.others)] for one in kept])
        points = points[~beaten(points)]
        corner: Array = points.max(axis=0) + CORNER
        return corner, hypervolume(points, corner)


def product(of: Objectives, seed: int) -> Iterator[Front]:
    """The search of a study with `also`."""
    constraints = constraints_of(of.limits)
    space, default = of.surface.space, of.surface.default
    search = Search(space, default, constraints=constraints, seed=seed, max_trials=40, also=of.others)
    noise = np.random.default_rng(seed)
    while (candidate := search.ask()) is not None:
        search.tell(candidate, of.measure(candidate.knobs, noise))
        yield [point.knobs for point in search.front()]


class _Runs(Runs):
    """What a rival has measured of several objectives."""

    def __init__(self, of: Objectives, seed: int) -> None:
        super().__init__(of.measure, seed)
        self.of = of

    def front(self) -> Front:
        """Of what held in its one run what nothing beats."""
        held = [(knobs, found) for knobs, found in self.seen.values() if found.feasible]
        if not held:
            return []
        values = np.array(
            [[found.objective_s or math.inf, *(found.also[name] for name in self.of.others)] for _, found in held]
        )
        return [knobs for (knobs, _), worse in zip(held, beaten(values), strict=True) if not worse]


def chance(of: Objectives, seed: int) -> Iterator[Front]:
    runs, draw, space = _Runs(of, seed), plain_random.Random(seed), of.surface.space
    runs.run(of.surface.default)
    yield runs.front()
    while True:
        knobs = drawn(space, draw)
        if canonical_json(knobs) not in runs.seen and not space.infeasible(knobs):
            runs.run(knobs)
            yield runs.front()


def _optuna(sampler: Callable[[int], optuna.samplers.BaseSampler]) -> Callable[[Objectives, int], Iterator[Front]]:
    def play(of: Objectives, seed: int) -> Iterator[Front]:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        runs, space, start = _Runs(of, seed), of.surface.space, of.surface.default
        study = optuna.create_study(sampler=sampler(seed), directions=["minimize"] * (1 + len(of.others)))
        places = {name: optuna.distributions.IntDistribution(0, len(own) - 1) for name, own in space.values.items()}
        study.enqueue_trial({name: own.index(start[name]) for name, own in space.values.items()})
        first: Assessment | None = None
        while True:
            trial = study.ask(dict(places))
            knobs = space.complete({name: space.values[name][trial.params[name]] for name in places})
            if space.infeasible(knobs):
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            told = runs.run(knobs)
            first = first or told
            for name in (*of.limits, "all"):
                missing = told.worst if told.objective_s is None else 0.0
                trial.set_constraint(name, constraint_value(told.violations.get(name, missing)))
            also = [score(told.also.get(name), first.also.get(name)) for name in of.others]
            study.tell(trial, [score(told.objective_s, first.objective_s), *also])
            yield runs.front()

    return play


def _nsga2(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.NSGAIISampler(seed=seed, population_size=5)


def _tpe(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=5, multivariate=True)


def _gp(seed: int) -> optuna.samplers.BaseSampler:
    independent = optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.GPSampler(seed=seed, n_startup_trials=5, independent_sampler=independent)


PLAYERS: dict[str, Callable[[Objectives, int], Iterator[Front]]] = {
    "product": product,
    "random": chance,
    "Optuna NSGA-II": _optuna(_nsga2),
    "Optuna TPE": _optuna(_tpe),
    "Optuna GP": _optuna(_gp),
}


def measure(
    make: Callable[[int], Surface],
    others: tuple[str, ...],
    seeds: Sequence[int],
    names: Sequence[str],
    most: int = max(AFTER),
) -> None:
    every = [Objectives(make(seed), others) for seed in seeds]
    scales = [of.scale() for of in every]
    after = [count for count in AFTER if count <= most]
    print(f"\n{every[0].surface.describe()}; end-to-end time, {' and '.join(others)} together; {len(seeds)} seeds\n")
    told = " | ".join(f"{count} trials" for count in after)
    print(f"| share of the true front, median / 10th (offered in vain) | {told} | s a study |")
    print("|---" * (len(after) + 2) + "|")
    for name in names:
        began = time.process_time()
        paths = [
            _path(islice(PLAYERS[name](of, seed), most), of, *scale)
            for of, seed, scale in zip(every, seeds, scales, strict=True)
        ]
        spent_s = (time.process_time() - began) / len(seeds)
        cells = [_cell([path[min(count, len(path)) - 1] for path in paths]) for count in after]
        print(f"| {name} | {' | '.join(cells)} | {spent_s:.2f} |", flush=True)


def _path(fronts: Iterator[Front], of: Objectives, corner: Array, whole: float) -> list[tuple[float, float]]:
    """(share of the true front that is covered, share of the offered that break a limit) after each trial."""
    found = []
    for front in fronts:
        true = [of.truth(knobs) for knobs in front]
        points = np.array([one for one in true if one is not None]).reshape(-1, len(corner))
        found.append((hypervolume(points, corner) / whole, true.count(None) / max(1, len(true))))
    return found


def _cell(results: Sequence[tuple[float, float]]) -> str:
    low, middle = np.quantile([share for share, _ in results], (0.1, 0.5))
    vain = float(np.mean([broken for _, broken in results]))
    return f"{100 * middle:.0f} / {100 * low:.0f} % ({100 * vain:.0f} %)"
