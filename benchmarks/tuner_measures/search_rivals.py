"""What a study's search is compared with: each measures one configuration a trial, and then says which it would take.

All begin with the default, and all but the product take the fastest that held its limits in its one run.
"""

from __future__ import annotations

import random as plain_random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import optuna

from benchmarks.tuner_measures.known_surfaces import Surface
from controlplane.contract.knobs import canonical_json
from tuner.search.objective import Assessment, constraint_value, score
from tuner.search.search import Candidate, Search
from tuner.search.space import Space

Chosen = dict[str, Any] | None
Player = Callable[[Surface, int], Iterator[Chosen]]
"""Endless or not: after each trial, the configuration it would take (None: it has none that may be used)."""


def product(surface: Surface, seed: int) -> Iterator[Chosen]:
    """The search of a study, without its finish."""
    return played(make_search(surface, seed), surface, seed)


def played(
    search: Search, surface: Surface, seed: int, ahead: Callable[[], Candidate | None] = lambda: None
) -> Iterator[Chosen]:
    """ahead: asked before each trial, what is measured in place of what the search asks for."""
    noise = np.random.default_rng(seed)
    while (candidate := ahead() or search.ask()) is not None:
        search.tell(candidate, surface.measure(candidate.knobs, noise))
        found = search.best()
        yield None if found is None else found.knobs


def make_search(surface: Surface, seed: int, trials: int = 40, **told: Any) -> Search:
    """told: what a study tells its search besides."""
    constraints = constraints_of(surface.limits)
    return Search(surface.space, surface.default, constraints=constraints, seed=seed, max_trials=trials, **told)


def constraints_of(limits: Iterable[str]) -> list[str]:
    """What a study holds its configurations to: its limits, and what every study has besides."""
    return [*limits, "errors", "top1_agreement"]


class Runs:
    """What a rival has measured, each configuration once. measure: of the surface, given its noise."""

    def __init__(self, measure: Callable[[Mapping[str, Any], np.random.Generator], Assessment], seed: int) -> None:
        self._measure, self.noise = measure, np.random.default_rng(seed)
        self.seen: dict[str, tuple[dict[str, Any], Assessment]] = {}

    def run(self, knobs: dict[str, Any]) -> Assessment:
        found = self._measure(knobs, self.noise)
        self.seen[canonical_json(knobs)] = (knobs, found)
        return found

    def best(self) -> Chosen:
        """The fastest that held; without one, the nearest to that."""

        def rank(one: tuple[dict[str, Any], Assessment]) -> tuple[bool, float]:
            told = one[1]
            return (not told.feasible, (told.objective_s or 0.0) if told.feasible else told.worst)

        return min(self.seen.values(), key=rank)[0]


def chance(surface: Surface, seed: int) -> Iterator[Chosen]:
    """Random search without repetition."""
    runs, draw = Runs(surface.measure, seed), plain_random.Random(seed)
    runs.run(surface.default)
    yield runs.best()
    while True:
        knobs = drawn(surface.space, draw)
        if canonical_json(knobs) not in runs.seen and not surface.space.infeasible(knobs):
            runs.run(knobs)
            yield runs.best()


def drawn(space: Space, draw: plain_random.Random) -> dict[str, Any]:
    return space.complete({name: draw.choice(values) for name, values in space.values.items()})


def _optuna(sampler: Callable[[int], optuna.samplers.BaseSampler]) -> Player:
    def play(surface: Surface, seed: int) -> Iterator[Chosen]:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        runs, space = Runs(surface.measure, seed), surface.space
        study = optuna.create_study(sampler=sampler(seed))
        places = {name: optuna.distributions.IntDistribution(0, len(own) - 1) for name, own in space.values.items()}
        study.enqueue_trial({name: own.index(surface.default[name]) for name, own in space.values.items()})
        first: float | None = None
        while True:
            trial = study.ask(dict(places))
            knobs = space.complete({name: space.values[name][trial.params[name]] for name in places})
            if space.infeasible(knobs):
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            told = runs.run(knobs)
            first = first or told.objective_s
            for name in (*surface.limits, "all"):
                missing = told.worst if told.objective_s is None else 0.0
                trial.set_constraint(name, constraint_value(told.violations.get(name, missing)))
            study.tell(trial, score(told.objective_s, first))
            yield runs.best()

    return play


def _tpe(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=5, multivariate=True)


def _gp(seed: int) -> optuna.samplers.BaseSampler:
    independent = optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.GPSampler(seed=seed, n_startup_trials=5, independent_sampler=independent)


def coordinate(surface: Surface, seed: int) -> Iterator[Chosen]:
    """Coordinate descent: one knob after the other, in a random order, all its values, the best kept; then again."""
    runs, draw = Runs(surface.measure, seed), plain_random.Random(seed)
    runs.run(surface.default)
    yield runs.best()
    while True:
        names = list(surface.space.values)
        draw.shuffle(names)
        before = len(runs.seen)
        for name in names:
            start = runs.best() or surface.default
            values = list(surface.space.values[name])
            draw.shuffle(values)
            for value in values:
                knobs = surface.space.complete({**_searched(surface.space, start), name: value})
                if canonical_json(knobs) not in runs.seen and not surface.space.infeasible(knobs):
                    runs.run(knobs)
                    yield runs.best()
        if len(runs.seen) == before:
            return


def _searched(space: Space, knobs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: knobs[name] for name in space.values}


def auto_tune(surface: Surface, seed: int) -> Iterator[Chosen]:
    """vLLM's `benchmarks/auto_tune`: a grid of batched tokens (and sequences, where they are searched) in its order,
    all else as it is. One run each, though its own lowers the rate run by run where a limit breaks.
    """
    runs = Runs(surface.measure, seed)
    runs.run(surface.default)
    yield runs.best()
    names = [name for name in ("max_num_seqs", "max_num_batched_tokens") if name in surface.space.values]
    grid: list[dict[str, Any]] = [{}]
    for name in names:
        grid = [{**one, name: value} for one in grid for value in surface.space.values[name]]
    for one in grid:
        knobs = surface.space.complete({**_searched(surface.space, surface.default), **one})
        if canonical_json(knobs) not in runs.seen and not surface.space.infeasible(knobs):
            runs.run(knobs)
            yield runs.best()


PLAYERS: dict[str, Player] = {
    "product": product,
    "random": chance,
    "Optuna TPE": _optuna(_tpe),
    "Optuna GP": _optuna(_gp),
    "coordinate descent": coordinate,
    "vLLM auto_tune": auto_tune,
}
