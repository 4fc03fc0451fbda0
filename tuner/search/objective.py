"""From a measurement to what the search compares: objective, constraint violations, feasibility. Pure.

Violations are relative: 0.2 means 20 % over the limit, -0.1 means 10 % below it; at or below 0 the limit held.
The search works on logarithms of ratios, since latency noise is multiplicative and 2x worse weighs as much as 2x
better.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.contract.bodies.knob_schema import COST, GOODPUT, GOODPUT_TOKENS, MAX_LOAD, OF_GOOD, OF_LIMITS
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import (
    Objective,
    StudyCreate,
)
from controlplane.contract.planning.measurement import Measurement
from tuner.replay.replay import key

ERRORS = "errors"
"""The limit on lost requests. Lost is what `finish_reasons.FAILED` means, as a client sees it: refused or shed (429,
503), failed, dropped, or ended before all tokens were there."""
CRASH = "crash"
CRASH_VIOLATION = 10.0
"""What a configuration that could not be applied or crashed is said to exceed its limits by (SCOOT's practice)."""


@dataclass(frozen=True)
class Assessment:
    """`objective_s` is None when nothing was measured, for example because every request failed. `also`: the further
    objectives, seconds by name."""

    objective_s: float | None
    violations: dict[str, float]
    also: Mapping[str, float] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        return self.objective_s is not None and all(excess <= 0 for excess in self.violations.values())

    @property
    def worst(self) -> float:
        """The largest violation; at or below 0 when all limits held."""
        return max(self.violations.values(), default=0.0)


def needed_quantiles(spec: StudyCreate) -> list[tuple[str, float]]:
    """What a measurement must hold for this study."""
    own = [(one.objective, one.objective_q) for one in spec.objectives if one.objective not in OF_LIMITS]
    return [*own, *((limit.metric, limit.q) for limit in spec.constraints)]


def good_by(spec: StudyCreate) -> list[Limit]:
    """What a request must keep to be a good one, where the study asks how many are."""
    return spec.constraints if spec.seeks(*OF_GOOD) else []


def violations(measurement: Measurement, spec: StudyCreate) -> dict[str, float]:
    """Relative excess of each limit. A quantile that could not be measured is a crash-sized violation."""
    found = {ERRORS: measurement.errors / max(1, measurement.requests) / spec.max_lost_share - 1.0}
    for limit in spec.held:
        name = key(limit.metric, limit.q)
        value = measurement.quantiles.get(name)
        excess = CRASH_VIOLATION if value is None else value / limit.limit_s - 1.0
        found[name] = min(max(found.get(name, -math.inf), excess), CRASH_VIOLATION)
    return found


def assess(measurement: Measurement, spec: StudyCreate, quality: Mapping[str, float] | None = None) -> Assessment:
    """`quality`: violations of the quality gate, which count as any other constraint."""
    first, *others = spec.objectives
    also = {one.name: value for one in others if (value := value_s(one, measurement)) is not None}
    return Assessment(value_s(first, measurement), violations(measurement, spec) | dict(quality or {}), also)


def value_s(objective: Objective, measurement: Measurement) -> float | None:
    """Seconds of an objective; None where it was not measured."""
    carried = measurement.carried
    told = {
        GOODPUT: measurement.good_s,
        GOODPUT_TOKENS: measurement.good_token_s,
        MAX_LOAD: None if carried is None else carried.request_s,
        COST: None if carried is None else carried.cost_s,
    }
    name = objective.name
    return told[name] if name in told else measurement.quantiles.get(name)


def crashed() -> Assessment:
    """The assessment of a configuration that could not be measured at all."""
    return Assessment(None, {CRASH: CRASH_VIOLATION})


def mean_assessment(runs: Sequence[Assessment]) -> Assessment:
    """Several runs of one configuration as one: geometric means, since noise is multiplicative; a failed one stays out.

    At least one of `runs`.
    """
    measured = [run for run in runs if run.objective_s is not None and run.objective_s > 0]
    if not measured:
        return runs[-1]
    objective = mean_ratio([run.objective_s or 1.0 for run in measured])
    names = dict.fromkeys(name for run in measured for name in run.also)
    also = {name: mean_ratio([run.also[name] for run in measured if run.also.get(name)]) for name in names}
    found = {}
    for name in sorted(set().union(*(run.violations for run in measured))):
        values = [constraint_value(run.violations[name]) for run in measured if name in run.violations]
        found[name] = math.exp(math.fsum(values) / len(values)) - 1.0
    return Assessment(objective, found, also)


def mean_ratio(values: Sequence[float]) -> float:
    """The geometric mean of positive values, at least one."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def score(objective_s: float | None, default_s: float | None) -> float:
    """The natural logarithm of objective / default: 0 as good as the default, negative is better.

    Nothing measured scores as ten times the default: bad, but near enough for a surrogate model to stay smooth.
    """
    if objective_s is None:
        return math.log(10.0)
    if not default_s or objective_s <= 0:
        return 0.0
    return math.log(objective_s / default_s)


def constraint_value(worst: float) -> float:
    """A violation as the search sees it: log(measured / limit), so at or below 0 when it held."""
    return math.log(max(1.0 + worst, 0.05))
