"""What a study tells beside its verdict: the front of several objectives, and what output tokens cost. Pure."""

from __future__ import annotations

import math

from controlplane.contract.bodies.knob_schema import COST, OF_LOADS
from controlplane.contract.bodies.studies import (
    Costs,
    FrontMember,
    FrontValue,
    StudyCreate,
)
from controlplane.contract.planning.measurement import CarriedLoad, Carries
from tuner.capacity.token_cost import costs_of, token_cost
from tuner.search.search import Search
from tuner.study.remeasure import DEFAULT, Race


def front_of(spec: StudyCreate, search: Search) -> list[FrontMember]:
    """What is left to choose among; empty where there is one objective."""
    names = [one.name for one in spec.objectives]
    if len(names) == 1:
        return []
    return [
        FrontMember(
            number=point.number,
            runs=point.runs,
            knobs=point.knobs,
            values={
                name: FrontValue(value_s=value, low_s=low, high_s=high)
                for name, (value, low, high) in zip(names, point.values, strict=True)
            },
            keeps_limits=round(point.feasible, 4),
        )
        for point in search.front()
    ]


def asks_for_costs(spec: StudyCreate) -> bool:
    return spec.seeks(COST) or spec.node_hour_price is not None


def costs_by_pairs(
    spec: StudyCreate, race: Race, winner: Carries | None, default: Carries | None, tokens_per_s: float | None
) -> Costs | None:
    """Of both arms; None where costs are not asked for, no load was sought, or neither carries any. `tokens_per_s`: of
    the pool's captured traffic."""
    if winner is None or default is None or not asks_for_costs(spec) or not (winner.load or default.load):
        return None
    run = race.loads[DEFAULT][0]
    before, after = (token_cost(one, run, spec.load) for one in (default, winner))
    return None if before is None else costs_of(before, after, tokens_per_s, _saved(spec, race))


def cost_alone(spec: StudyCreate, default: CarriedLoad | None, tokens_per_s: float | None) -> Costs | None:
    """Of the default, by its one run of the search; None as there."""
    if default is None or not asks_for_costs(spec) or not default.load:
        return None
    cost = token_cost(default, default, spec.load)
    return None if cost is None else costs_of(cost, None, tokens_per_s)


def _saved(spec: StudyCreate, race: Race) -> tuple[float, float, float] | None:
    """The share of the default's cost that the winner saves, as of the time per request, and its interval."""
    if spec.objective in OF_LOADS:
        found = race.found
        return (found.estimate, found.low, found.high) if found.low > -math.inf else None
    told = (one for one in race.also_found if one.objective in OF_LOADS and one.interval is not None)
    return next(((one.improvement, *one.interval) for one in told if one.interval), None)
