"""A search whose first trials are the twin's best, and what else it thinks nearly as good, before the usual ones."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.tuner_measures.from_forecasts.surface_forecasts import Ratios, kept
from benchmarks.tuner_measures.known_surfaces import Surface
from benchmarks.tuner_measures.measured_surface import EMBEDDED, LIMITS, OBJECTIVE, OFF
from benchmarks.tuner_measures.search_rivals import Chosen, Player, make_search, played
from controlplane.contract.knobs import canonical_json
from controlplane.contract.planning.trial_leases import ForecastAhead
from tuner.search.forecasts import Forecasts
from tuner.search.objective import Assessment
from tuner.search.search import Candidate
from tuner.search.space import Space
from tuner.search.well_spread import well_spread
from tuner.twin.studies.twin_ahead import MOST_AHEAD

T = TypeVar("T")
NEARLY = 0.1
"""By so much more (log ratio) than the best forecast one is nearly as good."""


def with_known_default(surface: Surface, seed: int, path: Path = EMBEDDED) -> Surface:
    """The same, where the pool runs a configuration under which its twin was fitted, `OFF` times as slow as the best or
    slower. path: of the measured surface."""
    slow = [key for key in sorted(kept(path)) if surface.seen[key].objective >= OFF * surface.best()]
    assert slow, f"seed {seed}: no default with forecasts is slow enough"
    drawn = slow[int(np.random.default_rng(8000 + seed).integers(len(slow)))]
    return replace(surface, default=json.loads(drawn))


def first_of(space: Space, told: Ratios, default: Assessment, many: int) -> list[str]:
    """Of the forecast configurations, as JSON, those to measure first: the quickest that keeps the limits, as the
    default's run and the ratios tell; then the ones farthest from it among what is nearly as good."""

    def excess(key: str) -> float:
        return max(math.log1p(over) + told[key][name] for name, over in default.violations.items())

    keeps = [key for key in told if excess(key) <= 0.0] or [min(told, key=excess)]
    best = min(keeps, key=lambda key: told[key][OBJECTIVE])
    found, near = [best], [key for key in keeps if told[key][OBJECTIVE] <= told[best][OBJECTIVE] + NEARLY]
    while len(found) < min(many, len(near)):
        taken = space.places([json.loads(key) for key in found])
        apart = np.abs(space.places([json.loads(key) for key in near])[:, None] - taken[None]).sum(axis=2).min(axis=1)
        found.append(near[int(apart.argmax())])
    return found


def twin_first(many: int, path: Path = EMBEDDED, *, shuffled: bool = False) -> Player:
    """So many of the twin's points come ahead of the usual. shuffled: each has another's forecast."""

    def play(surface: Surface, seed: int) -> Iterator[Chosen]:
        search = make_search(surface, seed)
        told = kept(path)[canonical_json(surface.default)][seed % 2]
        if shuffled:
            told = dealt_anew(told, seed)
        first: list[str] = []

        def ahead() -> Candidate | None:
            count = len(search.outcomes)
            if count == 1:
                first.extend(first_of(surface.space, told, search.outcomes[0].assessment, many))
            return Candidate(count, json.loads(first.pop(0))) if first else None

        return played(search, surface, seed, ahead)

    return play


def guided(path: Path = EMBEDDED, *, shuffled: bool = False) -> Player:
    """A study's own search that is told the twin's forecasts of as many configurations as a study asks for, well spread
    over the space. shuffled: each has another's."""

    def play(surface: Surface, seed: int) -> Iterator[Chosen]:
        known = kept(path)[canonical_json(surface.default)][seed % 2]
        asked = [canonical_json(knobs) for knobs in well_spread(surface.space, surface.default, MOST_AHEAD)]
        told: Ratios = {key: known[key] for key in asked if key in known}
        if shuffled:
            told = dealt_anew(told, seed)
        told[canonical_json(surface.default)] = dict.fromkeys((OBJECTIVE, *LIMITS), 0.0)
        ahead = [ForecastAhead(knobs=json.loads(key), ratios=ratios) for key, ratios in told.items()]
        search = make_search(surface, seed, forecasts=Forecasts(surface.space, ahead), objective=OBJECTIVE)
        return played(search, surface, seed)

    return play


def dealt_anew(told: Mapping[str, T], seed: int) -> dict[str, T]:
    """Each has another's forecast."""
    keys: Sequence[str] = list(told)
    order = np.random.default_rng(9000 + seed).permutation(len(keys))
    return {key: told[keys[place]] for key, place in zip(keys, order, strict=True)}
