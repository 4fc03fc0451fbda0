"""What a rollout is judged by (pure): from its spec to the plan that people read beforehand and the judge keeps to.

Guarantee: the plan follows from the spec alone, so what was told is what is judged, over restarts too.
"""

from collections.abc import Sequence

from controlplane.contract.bodies.rollouts import Compared, JudgingPlan, RolloutCreate, default_levels
from controlplane.contract.bodies.slo import PROFILES, Limit
from controlplane.contract.metrics import E2E, ITL, PREFILL, TTFT
from controlplane.contract.share_text import share_text

WAITING = (TTFT.short, E2E.short)
"""Metrics that hold the time in which a request waited."""

CANARY_PART = 0.5
"""Of alpha, for harm; the waves after it share the rest equally."""

HISTORY_S = 14400.0
"""How much of the time before the canary teaches the judge what is usual of each arm, and how that wanders."""

BESIDE_ODDS = 3.0

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
        stages=_stages(spec),
        limits=limits,
        tolerance=spec.tolerance,
        alpha=spec.alpha,
        says=_says(spec, compared, limits),
    )


def harm_part(*, is_wave: bool, waves: int) -> float:
    """The share of alpha at which the canary, or each of so many waves, is called worse. Good verdicts are the canary's
    alone: they have all of it."""
    return (1.0 - CANARY_PART) / max(waves, 1) if is_wave else CANARY_PART


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


def levels_beside(q: float) -> list[float]:
    """The quantiles that have a third and three times the odds of q: of the median the quartiles, of p95 p86.36 and
    p98.28. Where latency's distribution is flat around q, its own edge shows little of a great change beside it."""
    odds = q / (1.0 - q)
    found = [round(one / (1.0 + one), 4) for one in (odds / BESIDE_ODDS, odds * BESIDE_ODDS)]
    return [one for one in found if 0.0 < one < 1.0 and one != q]


def _compared(spec: RolloutCreate) -> list[Compared]:
    if spec.objective is not None:
        q = spec.objective_q
        own = Compared(metric=spec.objective, levels=[q], shown=[q], per_delivery=spec.objective == ITL.short)
        return [own.model_copy(update={"beside": levels_beside(q)})]
    found = []
    for metric in spec.metrics:
        levels = sorted(spec.levels.get(metric) or default_levels(metric))
        shown = [level for level in levels if level <= SHOWN_UP_TO]
        found.append(Compared(metric=metric, levels=levels, shown=shown, per_delivery=metric == ITL.short))
    return found


def _stages(spec: RolloutCreate) -> list[Compared]:
    """What stands for metrics that hold waiting, where it can be had."""
    if spec.objective is not None or PREFILL.short in spec.metrics or not set(spec.metrics) & set(WAITING):
        return []
    levels = sorted(default_levels(PREFILL.short))
    return [Compared(metric=PREFILL.short, levels=levels, shown=[one for one in levels if one <= SHOWN_UP_TO])]


def _says(spec: RolloutCreate, compared: list[Compared], limits: list[Limit]) -> list[str]:
    says = ["served share: requests failed, timed out, shed, refused or dropped, canary against control, at once"]
    for one in compared:
        where = ", ".join(f"p{100 * level:g}" for level in one.levels)
        held = ", less what its deliveries hold more tokens" if one.per_delivery else ""
        what = f"{one.metric} at {where}: not slower than the control by more than {share_text(spec.tolerance)}{held}"
        if spec.objective is not None:
            of = f"study {spec.study_id}" if spec.study_id is not None else "this rollout"
            beside = " and ".join(f"p{100 * level:g}" for level in one.beside)
            what = f"the objective of {of}, {what}; better where it is faster there or beside it, at {beside}"
        says.append(what)
    says += [
        f"{one.metric}, where senders tell it and the nodes' past is known, in place of what holds waiting: that is "
        "then held for harm alone, and not where both arms are overloaded"
        for one in _stages(spec)
    ]
    says += [
        f"limit: {limit.metric} p{100 * limit.q:g} at most {limit.limit_s:g} s, unless the control breaks it as often"
        for limit in limits
    ]
    if not limits:
        says.append("no limits: neither the rollout nor an absolute alert rule of the pool names one")
    times = f"a good verdict not before {spec.min_judge_s:g} s, inconclusive after {spec.max_judge_s:g} s"
    if spec.longest_judge_s > spec.max_judge_s:
        times += f", while harmless and with evidence to come after {spec.longest_judge_s:g} s"
    if spec.only_better:
        times += "; goes back unless it is shown to be better by then"
    if spec.takes_back is not None:
        times += f"; takes revision {spec.takes_back} back: inconclusive leaves it running, and a person decides"
    waves = (
        f"each wave after the canary: {spec.min_judge_s:g} s to {spec.wave_judge_s:g} s beside the rest, "
        "and harm takes all back"
    )
    if spec.takes_back is None:
        waves += "; the last beside the time before"
    return [*says, waves, f"harm: half of alpha {spec.alpha:g} is the canary's, half the waves' in equal parts", times]
