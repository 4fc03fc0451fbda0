"""What the form of a new study says, as the API takes it. Pure.

Guarantee: each field that is wrong is told at once, by its own name; what is left empty is not said. A study that is
read here is one that the service's own checks let through, but for its pool's nodes, and what nodes declare.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from controlplane.contract.bodies.slo import Limit, UseCase, limits_of
from controlplane.contract.bodies.studies import KnobRange, StudyCreate
from controlplane.contract.errors import BadRequest, TailwrightError, nearest
from controlplane.contract.knobs import KNOBS, NUM_SPECULATIVE_TOKENS
from controlplane.contract.planning.study_checks import check_range, check_spec
from web.frame.model_fields import Shape, field_of_model, read
from web.rollouts.declared_fields import FIELD as DECLARED
from web.rollouts.declared_fields import declared_ranges
from web.rollouts.guard_fields import days_of, share_of
from web.rollouts.proposal_fields import HOW, knob_value
from web.rollouts.proposal_fields import field_of as rollouts_field_of
from web.rollouts.proposal_fields import filled as rollout_filled
from web.studies.new_study_fields import FIELDS, MODEL_FIELDS, ONLINE, SHARES, WHERES, WINNERS

READ_BY_NAME = [name for name in MODEL_FIELDS if name in FIELDS and name not in ("pool", "also", "suggested", *SHARES)]
"""Fields that are written as the contract's kinds of fields are."""
KEY = "Idempotency-Key"
_BOUNDS = re.compile(r"(\d{1,9})\s*(?:to|\.\.|-|–)\s*(\d{1,9})(\s+log)?")
_PLACE = re.compile(r"^[\w.]+: ")
"""A field's name before what is wrong with it."""
_BETWEEN = re.compile(r"[;,\s]\s*(?=\w+\s*=)")


@dataclass(frozen=True)
class Wanted:
    """A form as it was read. `study`: None where a field is wrong; `problems` by field, in the form's order."""

    study: StudyCreate | None
    problems: dict[str, str]


def wanted_study(said: Mapping[str, str]) -> Wanted:
    problems: dict[str, str] = {}

    def take(name: str, of: Callable[[str, str], Any]) -> Any:
        text = said.get(name, "").strip()
        if not text:
            return None
        try:
            return of(text, name)
        except BadRequest as error:
            problems[name] = _PLACE.sub("", error.message)
            return None

    given: dict[str, Any] = {name: take(name, _by_model) for name in READ_BY_NAME}
    given |= {name: take(name, share_of) for name in SHARES}
    given["also"] = take("also", _objectives)
    given["suggested"] = take("suggested", _configurations)
    own = {name: of for name in KNOBS if (of := take(name, knob_range)) is not None}
    given["space"] = own | (take(DECLARED, declared_ranges) or {}) or None
    given["constraints"] = _limits(given["constraints"], take("profile", _use_case), problems)
    given["rollout"] = _rollout(said, problems) or None
    given |= take("winner", _winner) or {}
    given["online"] = _online(said, take)
    given["pool"] = said.get("pool", "").strip()
    if not given["pool"]:
        problems["pool"] = "choose one"
    study, found = _made({name: value for name, value in given.items() if value is not None})
    problems = {name: why for name in ("", *FIELDS) if (why := (found | problems).get(name))}
    return Wanted(None if problems else study, problems)


def _made(given: Mapping[str, Any]) -> tuple[StudyCreate | None, dict[str, str]]:
    """Of what could be read, so that what else is wrong is told beside what could not."""
    try:
        study = StudyCreate.model_validate(given)
        check_spec(
            study.model_copy(update={"space": {name: study.space[name] for name in study.space if name in KNOBS}})
        )
    except ValidationError as error:
        told = [(field_of(".".join(map(str, one["loc"]))), one["msg"]) for one in error.errors(include_url=False)]
        return None, dict(reversed(told))
    except BadRequest as error:
        return None, problems_of(error)
    return study, {}


def knob_range(text: str, name: str) -> KnobRange:
    """Of "16 to 128", "16 to 128 log", or values with commas between. Raises `BadRequest` that names the knob.

    A schedule of drafts has commas of its own: where one is among the values, they have semicolons between.
    """
    if bounds := _BOUNDS.fullmatch(text):
        found = KnobRange(minimum=int(bounds[1]), maximum=int(bounds[2]), log=bool(bounds[3]))
    else:
        between = ";" if ";" in text or (name == NUM_SPECULATIVE_TOKENS and ":" in text) else ","
        found = KnobRange(choices=[knob_value(name, one) for part in text.split(between) if (one := part.strip())])
    check_range(name, found)
    return found


def problems_of(error: TailwrightError) -> dict[str, str]:
    """What the API refuses, by the form's field; "" holds what is of none."""
    told = str(error.detail.get("field", ""))
    if told == KEY:
        return {"": "this page has started another study already; press once more where this one is wanted, too"}
    return {field_of(told): error.message.removeprefix(f"{told}: ")}


def field_of(told: str) -> str:
    """The form's field for the API's: `space.max_num_seqs.minimum` stands at `max_num_seqs`; empty for none of them."""
    first, *within = re.split(r"[.\[]", told)
    if first == "rollout" and within:
        first = rollouts_field_of(".".join(within))
    elif first == "space" and within:
        first = within[0] if within[0] in KNOBS else DECLARED
    elif first == "online":
        first = next(
            (name for name, (of, _) in ONLINE.items() if within[-1:] in ([of], [name.removeprefix("online_")])), "where"
        )
    elif first in ("propose_rollout", "auto_start_rollout"):
        first = "winner"
    return first if first in FIELDS else ""


def _by_model(text: str, name: str) -> Any:
    return read(field_of_model(name, MODEL_FIELDS[name]).shape, text, name)


def _limits(own: list[dict[str, Any]] | None, use: UseCase | None, problems: dict[str, str]) -> list[Limit] | None:
    try:
        return limits_of(use, [Limit.model_validate(one) for one in own or []]) or None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problems["constraints"] = f"{first['loc'][0]}: {first['msg']}"
        return None


def _use_case(text: str, name: str) -> UseCase:
    if text not in list(UseCase):
        raise BadRequest(f"{name}: wants one of those that are offered", field=name)
    return UseCase(text)


def _objectives(text: str, name: str) -> list[dict[str, Any]]:
    """A line each: a metric and its quantile, or an objective without one."""
    found: list[dict[str, Any]] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        objective, *q = line.split()
        if len(q) > 1:
            raise BadRequest(f"{name}: {line[:80]!r} wants an objective and a quantile: tpot p50", field=name)
        found.append({"objective": objective} | ({"objective_q": read(Shape.QUANTILE, q[0], name)} if q else {}))
    return found


def _online(said: Mapping[str, str], take: Callable[[str, Callable[[str, str], Any]], Any]) -> dict[str, Any] | None:
    """How a study in production goes; None for one on a trial node, which is told nothing of it."""
    is_online = take("where", _where)
    given = {name: take(name, _in_production if is_online else _nowhere) for name in ONLINE}
    if not is_online:
        return None
    found = {ONLINE[name][0]: given[name] for name in ("online_step", "online_taken_back") if given[name] is not None}
    hours = {name: given[name] for name, (field, _) in ONLINE.items() if field == "hours" and given[name] is not None}
    if hours:
        found["hours"] = {name.removeprefix("online_"): value for name, value in hours.items()}
    return found


def _where(text: str, name: str) -> bool:
    if text not in WHERES:
        raise BadRequest(f"{name}: wants one of those that are offered", field=name)
    return bool(text)


def _in_production(text: str, name: str) -> Any:
    if name == "online_days":
        return days_of(text)
    if ONLINE[name][0] == "hours":
        return text
    try:
        return float(text) if name == "online_step" else int(text)
    except ValueError:
        raise BadRequest(f"{name}: wants a number, got {text[:40]!r}", field=name) from None


def _nowhere(text: str, name: str) -> Any:
    raise BadRequest(f"{name}: is of a study in production; choose that under Where", field=name)


def _winner(text: str, name: str) -> Mapping[str, bool]:
    if text not in WINNERS:
        raise BadRequest(f"{name}: wants one of those that are offered", field=name)
    return WINNERS[text][1]


def _rollout(said: Mapping[str, str], problems: dict[str, str]) -> dict[str, Any]:
    """What its rollout shall have otherwise, read as the rollout's own form is."""
    how = {name: said.get(name, "") for name in HOW}
    found = rollout_filled({**how, "pool": "any", "revision": "1"})
    problems |= found.problems
    if found.proposal is None:
        return {}
    theirs = {"pool", "revision", "knobs", "start"}
    return found.proposal.model_dump(mode="json", exclude_unset=True, exclude=theirs)


def _configurations(text: str, name: str) -> list[dict[str, Any]]:
    """A line each, of knob=value. Raises `BadRequest` that names the line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [_configuration(line, name, number) for number, line in enumerate(lines, 1)]


def _configuration(line: str, name: str, number: int) -> dict[str, Any]:
    where, knobs = f"{name}: line {number}", {}
    for part in _BETWEEN.split(line):
        knob, told, value = (word.strip() for word in part.partition("="))
        if not told:
            raise BadRequest(f"{where}: {part[:40]!r} wants to be knob=value", field=name)
        if knob not in KNOBS:
            raise BadRequest(f"{where}: no knob {knob[:40]!r}, {nearest(knob, list(KNOBS))}", field=name)
        try:
            knobs[knob] = knob_value(knob, value)
        except BadRequest as error:
            raise BadRequest(f"{where}: {error.message}", field=name) from None
    return knobs
