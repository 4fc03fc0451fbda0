"""What the form of an alert rule says, as the API takes it, and back. Pure.

The fields of a kind of rule are those of its condition in the contract: a kind that is added there has a form at once.
Guarantees: what is wrong is told by the form's own field; what `rule_said` writes is read as the rule that it was.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from controlplane.contract.bodies.alerts import AlertRuleCreate, Condition, RegressionCondition, Remedy
from controlplane.contract.bodies.remedies import RemedyPolicy
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.errors import BadRequest
from web.frame.time_range import UNITS_S

KINDS: dict[str, type[BaseModel]] = {one.model_fields["kind"].default: one for one in get_args(Condition)}
"""Conditions by their kind, in the contract's order."""
TITLES = {kind: str(model.model_fields["kind"].description) for kind, model in KINDS.items()}
FRAME = ("name", "pool", "severity", "enabled", "remedy")
"""What every rule's form has."""
REMEDIES = {
    "": "offered only: a person starts it",
    RemedyPolicy.PROPOSE.value: "a bad revision's take-back is proposed, and waits for a person",
    RemedyPolicy.AUTOMATIC.value: "a bad revision is taken back at once",
}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?")
_LIMIT = re.compile(r"(?P<metric>\w+)\s+(?P<q>p\d+(?:\.\d+)?|0?\.\d+)(?:\s*(?:<=|≤|<)\s*|\s+)(?P<limit>\d.*)")


class Shape(StrEnum):
    """How a field is written."""

    LENGTH = "length"  # A length of time, as in 5m.
    NUMBER = "number"
    WORD = "word"
    CHOICE = "choice"
    WORDS = "words"  # With commas between.
    QUANTILES = "quantiles"  # With commas between, as in p95.
    LIMITS = "limits"  # A line each, as in ttft p95 600ms.


@dataclass(frozen=True)
class RuleField:
    """One field of a condition. usual: what it says where nobody has said anything."""

    name: str
    title: str
    shape: Shape
    hint: str
    usual: str
    choices: Mapping[str, str]


def fields_of(kind: str) -> list[RuleField]:
    """Those of a kind of rule. Raises `BadRequest` for one that there is not."""
    if kind not in KINDS:
        raise BadRequest(f"kind: wants one of {', '.join(KINDS)}", field="kind")
    return [_field(name, info) for name, info in KINDS[kind].model_fields.items() if name != "kind"]


def rule_said(rule: AlertRuleCreate) -> dict[str, str]:
    """The form of a rule that is there."""
    remedy = "" if rule.remedy is None else rule.remedy.policy.value
    frame = (rule.name, rule.pool or "", rule.severity.value, "yes" if rule.enabled else "no", remedy)
    said = {"kind": rule.condition.kind, **dict(zip(FRAME, frame, strict=True))}
    for field in fields_of(rule.condition.kind):
        said[field.name] = _written(field.shape, getattr(rule.condition, field.name))
    return said


def usual_said(kind: str) -> dict[str, str]:
    """The form of a new rule."""
    said = {"kind": kind, "name": "", "pool": "", "severity": "page", "enabled": "yes", "remedy": ""}
    return said | {field.name: field.usual for field in fields_of(kind)}


def wanted_rule(said: Mapping[str, str], before: Remedy | None = None) -> AlertRuleCreate:
    """The rule that a form describes. before: the remedy that it had, of which the form changes the policy alone.

    Raises `BadRequest` that names the form's field.
    """
    kind = said.get("kind", "")
    condition: dict[str, Any] = {"kind": kind}
    for field in fields_of(kind):
        text = said.get(field.name, "").strip()
        if text:
            condition[field.name] = _READ[field.shape](text, field.name)
    policy = said.get("remedy", "")
    if policy not in REMEDIES:
        raise BadRequest("remedy: wants one of those that are offered", field="remedy")
    remedy = (before or Remedy()).model_copy(update={"policy": RemedyPolicy(policy)}) if policy else None
    wanted = {
        "name": said.get("name", "").strip(),
        "pool": said.get("pool", "").strip() or None,
        "severity": said.get("severity", ""),
        "enabled": said.get("enabled", "yes") == "yes",
        "remedy": remedy,
        "condition": condition,
    }
    try:
        return AlertRuleCreate.model_validate(wanted)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        names = [str(part) for part in first["loc"] if part in said]
        field_name = names[0] if names else ""
        raise BadRequest(f"{field_name}: {first['msg']}" if field_name else first["msg"], field=field_name) from None


def field_of(told: str, fields: Iterable[str]) -> str:
    """The form's field for the API's: `condition.limits[0].q` stands at `limits`, `remedy.study` at `remedy`."""
    parts = [part.partition("[")[0] for part in told.split(".")]
    return next((name for name in fields if name != "kind" and name in parts), "")


def _field(name: str, info: FieldInfo) -> RuleField:
    shape, choices = _shape(name, info)
    said = (info.description or "").replace("null: ", "empty: ").replace("`", "")
    usual = "" if info.is_required() else _written(shape, info.get_default(call_default_factory=True))
    return RuleField(name, title_of(name), shape, said[:1].upper() + said[1:] + _how(shape), usual, choices)


def title_of(name: str) -> str:
    """`min_baseline_count` as "Min baseline count"; a length's unit is in its value."""
    said = {"q": "Quantiles", "for_s": "Lasts for", "min_count": "At least so many requests"}.get(name)
    return said or name.removesuffix("_s").replace("_", " ").capitalize()


def _shape(name: str, info: FieldInfo) -> tuple[Shape, Mapping[str, str]]:
    kind = info.annotation
    if get_origin(kind) in (Union, UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return Shape.CHOICE, {"": "–", **{one.value: one.value.replace("_", " ") for one in kind}}
    of = get_args(kind)
    if of:
        return {Limit: Shape.LIMITS, float: Shape.QUANTILES}.get(of[0], Shape.WORDS), {}
    if kind is str:
        return Shape.WORD, {}
    return (Shape.LENGTH if name.endswith("_s") else Shape.NUMBER), {}


def _how(shape: Shape) -> str:
    """What a reader must know of how it is written."""
    return {
        Shape.LENGTH: "; such as 90s, 5m, 6h or 28d.",
        Shape.WORDS: "; with commas between.",
        Shape.QUANTILES: "; with commas between, such as p95, p99.",
        Shape.LIMITS: "; a line each, such as ttft p95 600ms.",
    }.get(shape, ".")


# -- written and read -------------------------------------------------------------------------------------------------


def length_words(seconds: float) -> str:
    """The shortest way to write a length that is read as it was: 2419200 as "28d", 90 as "90s", 0.6 as "600ms"."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % UNITS_S[unit] == 0:
            return f"{seconds / UNITS_S[unit]:.0f}{unit}"
    thousandths = 1e3 * seconds
    return f"{thousandths:.0f}ms" if 0 < seconds < 1 and thousandths == round(thousandths) else f"{seconds:.12g}s"


def _length(text: str, field: str) -> float:
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise BadRequest(f"{field}: wants a length such as 600ms, 90s, 5m, 6h or 28d", field=field)
    unit = found[2] or "s"
    return float(found[1]) / 1e3 if unit == "ms" else float(found[1]) * UNITS_S[unit]


def _number(text: str, field: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadRequest(f"{field}: wants a number", field=field) from None


def _words(text: str, _: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _quantiles(text: str, field: str) -> list[float]:
    return [_quantile(word, field) for word in _words(text, field)]


def _quantile(word: str, field: str) -> float:
    """p95 or 0.95."""
    share = word.removeprefix("p")
    try:
        found = float(share)
    except ValueError:
        raise BadRequest(f"{field}: {word[:40]!r} wants to be a quantile such as p95", field=field) from None
    return round(found / 100, 9) if share != word else found


def _limits(text: str, field: str) -> list[dict[str, Any]]:
    found = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        parts = _LIMIT.fullmatch(line)
        if parts is None:
            raise BadRequest(f"{field}: {line[:80]!r} wants metric, quantile, limit: ttft p95 600ms", field=field)
        q, limit_s = _quantile(parts["q"], field), _length(parts["limit"], field)
        found.append({"metric": parts["metric"], "q": q, "limit_s": limit_s})
    return found


_READ: dict[Shape, Callable[[str, str], Any]] = {
    Shape.LENGTH: _length,
    Shape.NUMBER: _number,
    Shape.WORD: lambda text, _: text,
    Shape.CHOICE: lambda text, _: text,
    Shape.WORDS: _words,
    Shape.QUANTILES: _quantiles,
    Shape.LIMITS: _limits,
}


def _written(shape: Shape, value: Any) -> str:
    if value is None:
        return ""
    if shape is Shape.LENGTH:
        return length_words(value)
    if shape is Shape.LIMITS:
        return "\n".join(f"{one.metric} p{100 * one.q:.12g} {length_words(one.limit_s)}" for one in value)
    if shape is Shape.QUANTILES:
        return ", ".join(f"p{100 * q:.12g}" for q in value)
    if shape is Shape.WORDS:
        return ", ".join(value)
    return value.value if isinstance(value, StrEnum) else f"{value:.12g}" if isinstance(value, float) else str(value)


def in_words(rule: AlertRuleCreate) -> str:
    """What it watches, in a line: limits, else metrics and quantiles, else the symptom, else its kind."""
    said = rule_said(rule)
    limits = said.get("limits") or said.get("objectives")
    if limits:
        return limits.replace("\n", ", ")
    if profile := said.get("profile"):
        return f"the limits of {profile.replace('_', ' ')}"
    if metrics := said.get("metrics"):
        return f"{metrics} at {said['q']} against their baseline"
    if isinstance(rule.condition, RegressionCondition):
        return f"the stages of a request at {said['q']} against their baseline"
    return said.get("symptom", "").replace("_", " ") or TITLES[rule.condition.kind]
