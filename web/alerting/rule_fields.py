"""What the form of an alert rule says, as the API takes it, and back. Pure.

The fields of a kind of rule are those of its condition in the contract: a kind that is added there has a form at once.
Guarantees: what is wrong is told by the form's own field; what `rule_said` writes is read as the rule that it was.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from controlplane.contract.bodies.alerts import AlertRuleCreate, Condition, RegressionCondition, Remedy, Severity
from controlplane.contract.bodies.remedies import RemedyPolicy
from controlplane.contract.errors import BadRequest
from controlplane.contract.mistake_text import mistake_text
from web.frame.model_fields import ModelField, field_of_model, read, written

KINDS: dict[str, type[BaseModel]] = {one.model_fields["kind"].default: one for one in get_args(Condition)}
"""Conditions by their kind, in the contract's order."""
TITLES = {kind: str(model.model_fields["kind"].description) for kind, model in KINDS.items()}
NAMED = {"q": "Quantiles", "for_s": "Lasts for", "min_count": "At least so many requests"}
"""Fields whose names alone do not say what they are."""
SYMPTOM = "symptom"
SEVERITIES = {
    Severity.PAGE.value: "page: somebody is woken",
    Severity.TICKET.value: "ticket: it waits for the morning",
}
USUAL_SEVERITY = "as the catalogue has the symptom"
FRAME = ("name", "pool", "severity", "enabled", "remedy")
"""What every rule's form has."""
REMEDIES = {
    "": "offered only: a person starts it",
    RemedyPolicy.PROPOSE.value: "a bad revision's take-back is proposed, and waits for a person",
    RemedyPolicy.AUTOMATIC.value: "a bad revision is taken back at once",
}


def fields_of(kind: str) -> list[ModelField]:
    """Those of a kind of rule. Raises `BadRequest` for one that there is not."""
    if kind not in KINDS:
        raise BadRequest(f"kind: wants one of {', '.join(KINDS)}", field="kind")
    fields = KINDS[kind].model_fields.items()
    return [field_of_model(name, info, NAMED.get(name, "")) for name, info in fields if name != "kind"]


def rule_said(rule: AlertRuleCreate) -> dict[str, str]:
    """The form of a rule that is there."""
    remedy = "" if rule.remedy is None else rule.remedy.policy.value
    frame = (
        rule.name,
        rule.pool or "",
        (rule.severity.value if rule.severity else ""),
        "yes" if rule.enabled else "no",
        remedy,
    )
    said = {"kind": rule.condition.kind, **dict(zip(FRAME, frame, strict=True))}
    for field in fields_of(rule.condition.kind):
        said[field.name] = written(field.shape, getattr(rule.condition, field.name))
    return said


def severities_of(kind: str) -> dict[str, str]:
    """What a rule of the kind may be: of a symptom the catalogue knows how urgent it is."""
    return {"": USUAL_SEVERITY, **SEVERITIES} if kind == SYMPTOM else SEVERITIES


def usual_said(kind: str) -> dict[str, str]:
    """The form of a new rule."""
    severity = "" if kind == SYMPTOM else Severity.PAGE.value
    said = {"kind": kind, "name": "", "pool": "", "severity": severity, "enabled": "yes", "remedy": ""}
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
            condition[field.name] = read(field.shape, text, field.name)
    policy = said.get("remedy", "")
    if policy not in REMEDIES:
        raise BadRequest("remedy: wants one of those that are offered", field="remedy")
    remedy = (before or Remedy()).model_copy(update={"policy": RemedyPolicy(policy)}) if policy else None
    wanted = {
        "name": said.get("name", "").strip(),
        "pool": said.get("pool", "").strip() or None,
        "severity": said.get("severity") or None,
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
        message = mistake_text(first)
        raise BadRequest(f"{field_name}: {message}" if field_name else message, field=field_name) from None


def field_of(told: str, fields: Iterable[str]) -> str:
    """The form's field for the API's: `condition.limits[0].q` stands at `limits`, `remedy.study` at `remedy`."""
    parts = [part.partition("[")[0] for part in told.split(".")]
    return next((name for name in fields if name != "kind" and name in parts), "")


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
