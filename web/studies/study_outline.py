"""What a wanted study will do, and what bounds it, in sentences without their stops. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controlplane.contract.bodies.knob_schema import COST, GOODPUT_TOKENS, OF_LIMITS, OF_LOADS
from controlplane.contract.bodies.nodes import FleetColumns, NodeRole, NodeState
from controlplane.contract.bodies.rollouts import Rollout
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import KnobRange, Objective, Study, StudyCreate
from controlplane.contract.on_call.metric_text import metric_name
from controlplane.contract.planning.objective_text import called
from controlplane.contract.planning.online_mode import OnlineMode
from controlplane.contract.planning.replayed_traffic_name import traffic_words
from controlplane.contract.planning.study_checks import fewest_requests, thin_limits
from web.frame.format import knob as knob_words
from web.frame.model_fields import Shape, length_words, written
from web.rollouts.guard_fields import percent_words
from web.studies.new_study_fields import WINNERS

Bound = tuple[str, str]
"""A sentence, and the address where it leads; empty where it leads nowhere."""


def does(study: StudyCreate) -> list[str]:
    """In the order in which it is done."""
    if study.online is not None:
        return _done_in_production(study, study.online)
    rate = "" if study.load == 1 else f" at {study.load:g} times the rate at which it came"
    first = len(study.suggested)
    again = "on traffic that the search never saw"
    heats = f"Runs heats of {study.finalists} finalists {again}, then pairs of one of them and what the pool runs"
    pairs = heats if study.finalists > 1 else f"Runs pairs of the best and what the pool runs {again}"
    said = [
        f"Replays {_traffic(study)}{rate} to a trial node, "
        f"at most {study.trial_requests} requests a {'trial' if study.replays == 1 else 'replay'}",
        f"Replays it up to {study.replays} times a trial, each time at another rate" if study.replays > 1 else "",
        f"Tries at most {study.max_trials} configurations in at most {length_words(study.max_duration_s)}, "
        f"for {' and '.join(_objective(one, study.constraints) for one in study.objectives)}",
        "Seeks all that cannot be had better in one of these without being worse in another" if study.also else "",
        f"Searches {_space(study.space)}",
        f"Measures {first} of your own first, and searches their values, too" if first else "",
        f"{pairs}: time is kept for {study.finalist_repeats} pairs",
        *(_thin(limit) for limit in thin_limits(study)),
    ]
    return [one for one in said if one]


def keeps(study: StudyCreate) -> list[str]:
    """What its winner must hold; in production each step."""
    if study.online is not None:
        return [
            *(_limit(limit) for limit in study.held),
            "what the pool's alert rules page for",
            "its share of requests",
        ]
    return [
        *(_limit(limit) for limit in study.held),
        f"at most {percent_words(study.max_lost_share)} of its requests lost",
        f"where it is quantized, {percent_words(study.least_agreement)} of next tokens as without{_drop(study)}",
        *(_no_worse(one, study.also_tolerance) for one in study.also),
        *([_evaluated(study)] if study.evaluation else []),
    ]


def becomes(study: StudyCreate) -> str:
    """What is made of its winner."""
    if study.online is not None:
        return "What is better stays in production, everything else goes back"
    told: Mapping[str, bool] = {
        "propose_rollout": study.propose_rollout,
        "auto_start_rollout": study.auto_start_rollout,
    }
    usual = {"propose_rollout": True, "auto_start_rollout": False}
    words = next((words for words, given in WINNERS.values() if usual | given == told), "is told")
    own = ", ".join(name.removesuffix("_s").replace("_", " ") for name in study.rollout)
    return f"A better winner {words}" + (f", with its own {own}" if own and study.propose_rollout else "")


def bounds(
    pool: str, fleet: FleetColumns, rollouts: Iterable[Rollout], studies: Iterable[Study], *, online: bool = False
) -> list[Bound]:
    """What keeps a study of the pool from being run at once. rollouts, studies: those under way. online: it is one in
    production."""
    found: list[Bound] = []
    if not online and not trial_nodes(pool, fleet):
        mend = f"it fails unless an agent with role trial, pool {pool}-trial and the same model is there by then"
        found.append((f"No trial node can run it now: {mend}", "/fleet"))
    for rollout in rollouts:
        if rollout.spec.pool == pool:
            found.append((f"It waits for the end of rollout {rollout.id}", f"/rollouts/{rollout.id}"))
    for study in studies:
        if study.spec.pool == pool and (study.spec.online is None or online):
            found.append((f"It comes after study {study.id}, which is {study.state.value}", f"/studies/{study.id}"))
    return found


def _done_in_production(study: StudyCreate, online: OnlineMode) -> list[str]:
    hours = online.hours
    when = "" if hours is None else f", from {hours.opens} to {hours.closes} ({hours.zone})"
    days = "" if hours is None else f" {', '.join(day.value for day in hours.days)}"
    space = _space(study.space).partition(":")[0] if study.space else "every knob that changes live"
    aim = _objective(study.objectives[0], study.constraints)
    return [
        f"Moves {space} of pool {study.pool}, one at a time, by at most {online.step:g} times a step or to the next "
        "value",
        f"Makes each step a rollout with its canary, judged on live traffic, for {aim}",
        f"Takes at most {study.max_trials} steps in at most {length_words(study.max_duration_s)}, and ends when "
        f"{online.max_taken_back} were worse, undecided or stopped",
        f"Begins steps{days}{when}, within the pool's own hours and no freeze window"
        if hours is not None
        else "Begins no step out of the pool's hours or in a freeze window",
        "Takes its step back, and waits, while the pool has an open incident",
    ]


def trial_nodes(pool: str, fleet: FleetColumns) -> list[str]:
    """Those that are well and run the pool's model, by name."""
    nodes = list(zip(fleet.node, fleet.pool, fleet.role, fleet.state, fleet.model, strict=True))
    models = {model for _, of, role, _, model in nodes if of == pool and role is NodeRole.SERVING and model}
    away = (NodeState.OFFLINE, NodeState.UNHEALTHY)
    return [
        name
        for name, _, role, state, model in nodes
        if role is NodeRole.TRIAL and state not in away and (not models or model in models)
    ]


def _traffic(study: StudyCreate) -> str:
    return _requests(study) + (f" with the text of prompt set {study.prompts}" if study.prompts else "")


def _requests(study: StudyCreate) -> str:
    if study.workload:
        return f"{traffic_words(study.workload)}, as if pool {study.pool} had served it,"
    return f"the newest {length_words(study.workload_s)} of pool {study.pool}'s traffic"


def _objective(of: Objective, limits: Sequence[Limit]) -> str:
    if of.objective not in OF_LIMITS:
        return f"a lower {metric_name(of.objective)} {written(Shape.QUANTILE, of.objective_q)}"
    kept = ", and its ".join(f"{metric_name(one.metric)} at most {length_words(one.limit_s)}" for one in limits)
    if of.objective in OF_LOADS:
        wanted = "cheaper output tokens at" if of.objective == COST else ""
        return f"{wanted} the largest load that keeps {' and '.join(map(_limit, limits))}".strip()
    more = "output tokens a second of requests" if of.objective == GOODPUT_TOKENS else "requests a second"
    return f"more {more} of which each keeps its {kept}"


def _drop(study: StudyCreate) -> str:
    if not study.most_logprob_drop:
        return ""
    return f", and held-out text at most {study.most_logprob_drop:g} nats a token less likely"


def _no_worse(one: Objective, share: float) -> str:
    name = " ".join(map(metric_name, called(one).split(" ")))
    return f"{name} at most {percent_words(share)} worse than what the pool runs"


def _evaluated(study: StudyCreate) -> str:
    return f"by evaluation {study.evaluation}, a score at most {study.evaluation_margin:g} below what the pool runs has"


def _limit(limit: Limit) -> str:
    return f"{metric_name(limit.metric)} {written(Shape.QUANTILE, limit.q)} at most {length_words(limit.limit_s)}"


def _thin(limit: Limit) -> str:
    few = fewest_requests(limit.q)
    return f"{_limit(limit)} is coarse: of fewer than {few} requests a trial it rests on the slowest alone"


def _space(space: Mapping[str, KnobRange]) -> str:
    if not space:
        return "the tuner's own knobs"
    return "; ".join(f"{name} {_range(of)}" for name, of in space.items()) + ": other knobs stay as the pool runs them"


def _range(of: KnobRange) -> str:
    if of.choices is not None:
        return _values(of.choices)
    return f"{of.minimum} to {of.maximum}" + (" on a logarithmic scale" if of.log else "")


def _values(values: Sequence[Any]) -> str:
    return ", ".join(str(knob_words(value)) for value in values)
