"""What a wanted study must say to be worth a worker's time, whatever nodes there are. Each error names the field.

Pure: who asks for a study and the service that queues it check it by the same code.
"""

import json
import math
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from controlplane.contract.bodies.knob_schema import OBJECTIVES, OF_GOOD, OF_LIMITS, OF_LOADS, REPLAYED
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import KnobRange, StudyCreate
from controlplane.contract.errors import BadRequest, KnobOutOfRange, nearest
from controlplane.contract.knobs import KNOBS, parse_knob
from controlplane.contract.metrics import ITL
from controlplane.contract.planning.online_checks import check_online
from controlplane.contract.planning.replayed_traffic_name import profile_of
from controlplane.contract.reports.declared_knobs import DeclaredBySome, parse_declared, parse_named


def check_spec(spec: StudyCreate, declared: DeclaredBySome = MappingProxyType({})) -> None:
    """Raises `BadRequest`, `UnknownKnob` or `KnobOutOfRange` for the first wrong field. `declared`: knobs that nodes
    declare, which may be searched and suggested as the contract's own."""
    check_finite(spec, "")
    if not 0 <= spec.seed < 2**31:
        raise BadRequest(f"seed: wants 0 to {2**31 - 1}, got {spec.seed}", field="seed")
    profile_of(spec.workload)
    check_replayed(spec.objective, "objective", OBJECTIVES)
    check_also(spec)
    for place, limit in enumerate(spec.constraints):
        check_replayed(limit.metric, f"constraints[{place}].metric")
    of_limits = next((one.objective for one in spec.objectives if one.objective in OF_LIMITS), None)
    if of_limits is not None and not spec.constraints:
        seeks = "counts requests that keep limits" if of_limits in OF_GOOD else "is of the load that keeps limits"
        raise BadRequest(
            f"constraints: {of_limits} {seeks}, and none is given; say one, such as ttft at 0.95 of at most 1 s",
            field="constraints",
        )
    if spec.online is None:
        check_requests(spec)
    if (spec.node_hour_price is None) != (not spec.currency):
        missing = "currency: say in which money the price is, such as EUR"
        if spec.currency:
            missing = "node_hour_price: say what a node costs an hour, or leave the currency out"
        raise BadRequest(missing, field=missing.partition(":")[0])
    for place, knobs in enumerate(spec.suggested):
        parse_declared(knobs, declared, prefix=f"suggested[{place}].")
    for name, wanted in spec.space.items():
        check_range(name, wanted, declared)
    check_online(spec)
    check_rollout(spec)


BEYOND = 2
"""So many requests of a trial shall lie beyond a quantile: of fewer it is what the slowest one happened to take."""


def fewest_requests(q: float) -> int:
    """Of a trial, for a quantile of what a request has one value of."""
    return math.ceil(round(BEYOND / (1 - q), 6))


def check_requests(spec: StudyCreate) -> None:
    """An objective's quantile must be one that a trial's requests can tell. Inter-token latency has many values a
    request."""
    for one in spec.objectives:
        fewest = fewest_requests(one.objective_q)
        if one.objective in (*OF_LIMITS, ITL.short) or spec.trial_requests >= fewest:
            continue
        highest = 1 - BEYOND / spec.trial_requests
        told = f"or ask for p{math.floor(100 * highest)} at most" if highest > 0 else "or make goodput the objective"
        raise BadRequest(
            f"trial_requests: {one.aim} of {spec.trial_requests} requests rests on its slowest alone; replay at least "
            f"{fewest} a trial, {told}",
            field="trial_requests",
        )


def thin_limits(spec: StudyCreate) -> list[Limit]:
    """Limits at a quantile beyond which a trial has less than two requests: they hold, but are coarse."""
    held = spec.constraints if spec.objective in OF_LOADS else spec.held
    return [one for one in held if one.metric != ITL.short and spec.trial_requests < fewest_requests(one.q)]


def check_also(spec: StudyCreate) -> None:
    """Each objective once."""
    names = [one.name for one in spec.objectives]
    for place, one in enumerate(spec.also):
        check_replayed(one.objective, f"also[{place}].objective", OBJECTIVES)
        if one.name in names[: place + 1]:
            raise BadRequest(f"also[{place}]: {one.name} is an objective already", field=f"also[{place}]")


def check_finite(value: Any, field: str) -> None:
    """Numbers that JSON cannot hold (Python's parser lets Infinity and NaN in) are refused, at any depth."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, float) and not math.isfinite(value):
        raise BadRequest(f"{field}: wants a finite number, got {value}", field=field)
    if isinstance(value, dict):
        for name, inner in value.items():
            check_finite(inner, f"{field}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            check_finite(inner, f"{field}[{place}]")


def check_replayed(short: str, field: str, known: tuple[str, ...] = REPLAYED) -> None:
    """A replay's client sees no stages."""
    if short not in known:
        seen = ", ".join(REPLAYED)
        raise BadRequest(
            f"{field}: a replay measures {seen} from outside, not {short!r}, {nearest(short, list(known))}", field=field
        )


def check_range(name: str, wanted: KnobRange, declared: DeclaredBySome = MappingProxyType({})) -> None:
    """Every value the range can give must be one that the knob can take."""
    field = f"space.{name}"

    def check(value: Any) -> None:
        if name in KNOBS:
            parse_knob(name, value, prefix="space.")
        else:
            parse_named(name, value, declared, prefix="space.")

    if wanted.choices is not None:
        if not wanted.choices:
            raise KnobOutOfRange(f"{field}.choices: at least one choice is needed", field=f"{field}.choices")
        for choice in wanted.choices:
            check(choice)
        return
    assert wanted.minimum is not None and wanted.maximum is not None  # KnobRange has one of the two forms.
    if name in KNOBS and KNOBS[name].choices:
        names = ", ".join(KNOBS[name].choices)
        raise KnobOutOfRange(f"{field}: wants choices out of {names}, not a minimum and a maximum", field=field)
    check(wanted.minimum)
    check(wanted.maximum)
    if any(knob.values is not None for knob in declared.get(name, ())):
        raise KnobOutOfRange(f"{field}: it takes single values: give choices, not bounds", field=field)
    if wanted.minimum > wanted.maximum:
        raise KnobOutOfRange(
            f"{field}.minimum: {wanted.minimum} is above the maximum {wanted.maximum}", field=f"{field}.minimum"
        )
    if wanted.log and wanted.minimum < 1 and (name in KNOBS or wanted.minimum <= 0):
        least = "at 1 or above" if name in KNOBS else "above 0"
        raise KnobOutOfRange(f"{field}.minimum: a logarithmic range starts {least}", field=f"{field}.minimum")


def check_rollout(spec: StudyCreate) -> None:
    """The overrides of the proposed rollout must be ones that a rollout can take."""
    fixed = {"pool", "revision", "study_id", "study_step", "emergency", "takes_back"}
    valid = sorted(set(RolloutCreate.model_fields) - fixed)
    for name in spec.rollout:
        if name not in valid:
            raise BadRequest(
                f"rollout.{name}: not a field to override, {nearest(name, valid)}", field=f"rollout.{name}"
            )
    wanted = {"pool": spec.pool, "revision": 1, **spec.rollout}
    try:
        # Strict, and from JSON: `true` is no number, and an enum is its text.
        RolloutCreate.model_validate_json(json.dumps(wanted), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(["rollout", *(str(part) for part in first["loc"])])
        raise BadRequest(f"{field}: {first['msg']}", field=field) from None
