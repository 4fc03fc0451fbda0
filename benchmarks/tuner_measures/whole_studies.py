"""Whole studies, by the decisions of a study's own finish: what they say, and how often they say it wrongly.

Runs are drawn in place of a node's; there is always time, and no change of configuration costs any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.tuner_measures.known_surfaces import Surface, Truth
from benchmarks.tuner_measures.measured_surface import EMBEDDED, LIMITS, ReplayedSurface, read
from benchmarks.tuner_measures.search_rivals import make_search
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import Objective, RunOrder, StudyCreate
from controlplane.contract.knobs import canonical_json
from tuner.search.objective import Assessment, constraint_value
from tuner.search.search import Outcome, Search
from tuner.search.space import Space
from tuner.study.finish import Finish, NotMeasured, finalists_of, near_limits
from tuner.study.paired_test import fenced
from tuner.study.time_plan import TimePlan
from tuner.study.trial_run import Measured

Measure = Callable[[Mapping[str, Any]], Assessment]
"""One fresh run of a configuration."""


@dataclass(frozen=True)
class Ended:
    """A study's finish. `better`: the winner's knobs where it is better than the default; `runs`: of the finish."""

    better: dict[str, Any] | None
    runs: int


class _Free:
    def charge(self, knobs: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> float:
        return 0.0


def finish(
    search: Search, measure: Measure, limits: Sequence[str], also: Sequence[Objective] = (), worse_by: float = 0.1
) -> Ended:
    """Heats and pairs, as a study has them, of what its search has found."""
    spec = _spec(limits, also, worse_by)
    return decided(near_limits(finalists_of(search, spec.finalists)), search.default, measure, spec)


def decided(finalists: Sequence[Outcome], default: dict[str, Any], measure: Measure, spec: StudyCreate) -> Ended:
    runs = 0

    def run(knobs: dict[str, Any], order: RunOrder) -> Measured:
        nonlocal runs
        runs += 1
        return Measured(measure(knobs))

    if not finalists:
        return Ended(None, 0)
    time_plan = TimePlan(spec, clock=lambda: 0.0, run_s=[1.0, 1.0])
    ending = Finish(spec, _Free(), time_plan, run, lambda _: None, over_all=_typical)
    try:
        found = ending.decide(finalists, default)
    except NotMeasured:
        return Ended(None, runs)
    return Ended(found.winner.knobs if found.is_better else None, runs)


def _spec(limits: Sequence[str], also: Sequence[Objective] = (), worse_by: float = 0.1) -> StudyCreate:
    held = [Limit(metric=metric, q=float(q), limit_s=1.0) for metric, q in (name.split(":") for name in limits)]
    return StudyCreate(pool="p", constraints=held, also=list(also), also_tolerance=worse_by, max_duration_s=86400)


def _typical(runs: Sequence[Measured], spec: StudyCreate) -> dict[str, float]:
    """Of each limit over several runs. A study pools their requests, of which a run far off has a few more that are
    slow: what is told of a surface has no requests, and its typical run stands for them."""
    return {
        name: math.expm1(float(np.mean(fenced([constraint_value(one.assessment.violations[name]) for one in runs]))))
        for name in runs[0].assessment.violations
    }


def study(surface: Surface, seed: int, trials: int) -> tuple[bool, dict[str, Any], int]:
    """A whole study: whether it says better, the winner (the default where it does not), and the runs it took."""
    search, noise = make_search(surface, seed, trials), np.random.default_rng(seed)
    while (candidate := search.ask()) is not None:
        search.tell(candidate, surface.measure(candidate.knobs, noise))
    ended = finish(search, lambda knobs: surface.measure(knobs, noise, fresh=True), surface.limits)
    winner = surface.default if ended.better is None else ended.better
    return ended.better is not None, winner, len(search.outcomes) + ended.runs


def studies(name: str, make: Callable[[int], Surface], seeds: Sequence[int], trials: int = 12) -> None:
    """Verdicts and regret of whole studies."""
    results = []
    for seed in seeds:
        surface = make(seed)
        better, winner, runs = study(surface, seed, trials)
        broken = better and not surface.fresh[canonical_json(winner)].feasible
        results.append((better, broken, surface.regret(winner, fresh=True), runs))
    better_, broken_, regrets, runs_ = zip(*results, strict=True)
    low, high = np.quantile(regrets, (0.5, 0.9))
    print(
        f"| {name} | {sum(better_)} of {len(seeds)} | {sum(broken_)} | {100 * low:.0f} / {100 * high:.0f} % | "
        f"{np.mean(runs_):.0f} |",
        flush=True,
    )


FINALISTS = (1, 2, 3)
"""Beside the default, 0."""
Figures = Mapping[int, tuple[float, float]]
"""By configuration, what the objective takes, and the figure of one of two limits as a share of it."""
EQUALS: dict[str, Figures] = {
    "limits far off": {arm: (1.0, 0.5) for arm in (0, *FINALISTS)},
    "at their limit": {0: (1.0, 0.5), 1: (1.0, 1.0), 2: (1.0, 1.0), 3: (1.0, 1.0)},
    "beside one that is faster and breaks its limit": {0: (1.0, 0.5), 1: (0.75, 1.04), 2: (1.0, 0.5), 3: (1.0, 0.5)},
}
WORLDS: dict[str, Callable[[Figures], Surface]] = {
    "normal, 10 % a run": lambda figures: Surface("", Space({}, {}), _arm(0), _table(figures), _table(figures), 0.1),
    "as measured, ttft p95": lambda figures: ReplayedSurface(
        "", Space({}, {}), _arm(0), _table(figures), _table(figures), 0.1, read(EMBEDDED).noise[:, ::-1]
    ),
}


def _arm(arm: int) -> dict[str, Any]:
    return {"arm": arm}


def _table(figures: Figures) -> dict[str, Truth]:
    far, own = LIMITS
    return {canonical_json(_arm(arm)): Truth(took, {far: 0.5, own: of}) for arm, (took, of) in figures.items()}


def errors(finishes: int, world: str, seed: int) -> None:
    """How often one that is as fast as the default is called better."""
    for name, figures in EQUALS.items():
        surface, noise = WORLDS[world](figures), np.random.default_rng(seed)
        held = dict.fromkeys(LIMITS, -0.1)
        finalists = [Outcome(arm, _arm(arm), Assessment(1.0, held), gain=0.1, feasible=0.8) for arm in FINALISTS]
        measure = partial(surface.measure, random=noise)
        ends = [decided(finalists, surface.default, measure, _spec(LIMITS)) for _ in range(finishes)]
        wrong = sum(end.better is not None and figures[end.better["arm"]][0] >= 1.0 for end in ends) / finishes
        error, runs = math.sqrt(wrong * (1.0 - wrong) / finishes), np.mean([end.runs for end in ends])
        print(f"| {world} | {name} | {wrong:.2%} ({error:.2%}) | {runs:.1f} |", flush=True)
