"""What a rollout is judged by (pure): from its spec to the plan that people read beforehand and the judge keeps to.

Guarantee: the plan follows from the spec alone, so what was told is what is judged, over restarts too.
"""

from collections.abc import Sequence

from controlplane.contract.bodies.rollouts import Compared, JudgingPlan, RolloutCreate, default_levels
from controlplane.contract.bodies.slo import PROFILES, Limit
from controlplane.contract.metrics import ITL

SHOWN_UP_TO = 0.9
"""NOT_WORSE is shown at levels up to here; the tail beyond is too rare to prove at every traffic."""


def plan_of(spec: RolloutCreate) -> JudgingPlan | None:
    """None for an emergency: it is not judged."""
    if spec.emergency:
        return None
    compared = _compared(spec)
    limits = limits_of(spec)
    return JudgingPlan(
        compared=compared,
        limits=limits,
        tolerance=spec.tolerance,
        alpha=spec.alpha,
        says=_says(spec, compared, limits),
    )


def with_limits(spec: RolloutCreate, pools: Sequence[Limit]) -> RolloutCreate:
    """The spec with its pool's own limits beside those it names; of two for one quantile, its own counts."""
    if spec.emergency:
        return spec
    own = {(limit.metric, limit.q) for limit in limits_of(spec)}
    added = [limit for limit in pools if (limit.metric, limit.q) not in own]
    return spec.model_copy(update={"limits": [*spec.limits, *added]})


def limits_of(spec: RolloutCreate) -> list[Limit]:
    """The spec's own and its profile's, each once."""
    found = list(spec.limits)
    found += [limit for limit in PROFILES[spec.profile] if limit not in found] if spec.profile is not None else []
    return found


def _compared(spec: RolloutCreate) -> list[Compared]:
    if spec.objective is not None:
        q = spec.objective_q
        return [Compared(metric=spec.objective, levels=[q], shown=[q], per_delivery=spec.objective == ITL.short)]
    found = []
    for metric in spec.metrics:
        levels = sorted(spec.levels.get(metric) or default_levels(metric))
        shown = [level for level in levels if level <= SHOWN_UP_TO]
        found.append(Compared(metric=metric, levels=levels, shown=shown, per_delivery=metric == ITL.short))
    return found


def _says(spec: RolloutCreate, compared: list[Compared], limits: list[Limit]) -> list[str]:
    says = ["served share: requests failed, timed out, shed, refused or dropped, canary against control, at once"]
    for one in compared:
        where = ", ".join(f"p{100 * level:g}" for level in one.levels)
        held = ", less what its deliveries hold more tokens" if one.per_delivery else ""
        what = f"{one.metric} at {where}: not slower than the control by more than {spec.tolerance:.0%}{held}"
        if spec.objective is not None:
            of = f"study {spec.study_id}" if spec.study_id is not None else "this rollout"
            what = f"the objective of {of}, {what}"
        says.append(what)
    says += [
        f"limit: {limit.metric} p{100 * limit.q:g} at most {limit.limit_s:g} s, unless the control breaks it as often"
        for limit in limits
    ]
    if not limits:
        says.append("no limits: neither the rollout nor an absolute alert rule of the pool names one")
    times = f"a good verdict not before {spec.min_judge_s:g} s, inconclusive after {spec.max_judge_s:g} s"
    if spec.takes_back is not None:
        times += f"; takes revision {spec.takes_back} back: inconclusive leaves it running, and a person decides"
    return [*says, times]
