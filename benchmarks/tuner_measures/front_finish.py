"""What a whole study of two objectives comes to: the front that it offers, and what its finish says of the winner.

A surface's limit is its second objective (`front_rivals.Objectives`); 12 trials, then heats and pairs on fresh runs.
All is judged by true figures: how much of the true front is covered, by all that is offered and by default and winner
alone; what breaks the limit; whether a winner is worse than the default in the second objective by more than agreed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.tuner_measures.front_rivals import Objectives
from benchmarks.tuner_measures.known_surfaces import Surface
from benchmarks.tuner_measures.search_rivals import constraints_of
from benchmarks.tuner_measures.whole_studies import finish
from controlplane.contract.bodies.studies import Objective
from controlplane.contract.knobs import canonical_json
from tuner.search.front import hypervolume
from tuner.search.search import Search

WORSE_BY = 0.1
"""A study's `also_tolerance`, as it is unless somebody says otherwise."""


@dataclass(frozen=True)
class Told:
    """One study by its true figures. `covered`, `banked`: shares of the true front, by all that is offered and by the
    default and a better winner; `vain`: share of the offered that breaks the limit; `regret`: of what runs afterwards,
    against the best in the first objective that is not worse in the second by more than the tolerance."""

    covered: float
    banked: float
    vain: float
    better: bool
    breaks: bool
    worse: bool
    regret: float
    runs: int


def study(of: Objectives, seed: int, trials: int) -> Told:
    """A whole study with `also`."""
    surface, noise = of.surface, np.random.default_rng(seed)
    constraints = constraints_of(of.limits)
    search = Search(
        surface.space, surface.default, constraints=constraints, seed=seed, max_trials=trials, also=of.others
    )
    while (candidate := search.ask()) is not None:
        search.tell(candidate, of.measure(candidate.knobs, noise))
    also = [_objective(name) for name in of.others]
    ended = finish(search, lambda knobs: of.measure(knobs, noise, fresh=True), of.limits, also, WORSE_BY)
    better = ended.better is not None
    winner = surface.default if ended.better is None else ended.better
    offered = [of.truth(point.knobs) for point in search.front()]
    true = of.truth(winner)
    return Told(
        covered=_share(of, offered),
        banked=_share(of, [true, of.truth(surface.default)]),
        vain=offered.count(None) / max(1, len(offered)),
        better=better,
        breaks=better and true is None,
        worse=better and true is not None and _is_worse(true[1:], _logs(of, surface.default)[1:]),
        regret=_regret(of, winner),
        runs=len(search.outcomes) + ended.runs,
    )


def measure(name: str, make: Callable[[int], Surface], others: tuple[str, ...], seeds: Sequence[int]) -> None:
    """A row of `HEAD`, of 12 trials a study."""
    found = [study(Objectives(make(seed), others), seed, trials=12) for seed in seeds]
    covered, banked = (_spread([getattr(one, of) for one in found], 0.1) for of in ("covered", "banked"))
    vain = f"{100 * np.mean([one.vain for one in found]):.0f} %"
    better, breaks, worse = (sum(getattr(one, of) for one in found) for of in ("better", "breaks", "worse"))
    regret = _spread([one.regret for one in found], 0.9)
    runs = f"{np.mean([one.runs for one in found]):.0f}"
    cells = (name, covered, vain, f"{better} of {len(found)}", str(breaks), str(worse), banked, regret, runs)
    print(f"| {' | '.join(cells)} |", flush=True)


HEAD = (
    "| surface | front offered, share of the true one, median / 10th | of it breaks the limit | called better | winner "
    "breaks the limit | worse in the second by over 10 % | default and winner alone, share | regret, median / 90th | "
    "runs |\n" + 9 * "|---" + "|"
)


def _spread(values: Sequence[float], tail: float) -> str:
    middle, end = np.quantile(values, (0.5, tail))
    return f"{100 * middle:.0f} / {100 * end:.0f} %"


def _objective(name: str) -> Objective:
    metric, q = name.split(":")
    return Objective(objective=metric, objective_q=float(q))


def _share(of: Objectives, offered: Sequence[list[float] | None]) -> float:
    corner, whole = of.scale()
    points = np.array([one for one in offered if one is not None]).reshape(-1, len(corner))
    return hypervolume(points, corner) / whole


def _logs(of: Objectives, knobs: dict[str, Any]) -> list[float]:
    """Of all objectives, whatever limit is broken."""
    found = of.surface.fresh[canonical_json(knobs)]
    return [math.log(found.objective), *(math.log(found.limits[name]) for name in of.others)]


def _is_worse(values: Sequence[float], than: Sequence[float]) -> bool:
    return any(one > other + math.log1p(WORSE_BY) for one, other in zip(values, than, strict=True))


def _regret(of: Objectives, chosen: dict[str, Any]) -> float:
    """One that breaks the limit counts as the default, which is the best where nothing else would be agreed to."""
    default = _logs(of, of.surface.default)
    every = [one for key in of.surface.fresh if (one := of.truth_at(key)) is not None]
    best = min((one[0] for one in every if not _is_worse(one[1:], default[1:])), default=default[0])
    true = of.truth(chosen)
    return math.expm1((default if true is None else true)[0] - best)
