"""What the forms of routes and inhibit rules say, as the API takes it, and back. Pure.

Labels are written a line each: `pool=chat`, or `pool=~chat-.*` for a pattern. Guarantees: what is wrong is told by the
form's own field; what `..._said` writes is read as what it was, or the form is not offered (`is_written`).
"""

from collections.abc import Mapping

from controlplane.contract.bodies.alerts import InhibitRule, InhibitRuleCreate, Silenced
from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.incidents import Route, RouteCreate
from web.settings.form_fields import made, words

ROUTE = ("name", "owner", "matchers", "group_by", "position")
INHIBIT_RULE = ("name", "source", "target", "equal")
LIKE = "=~"


def wanted_route(fields: Mapping[str, str]) -> RouteCreate:
    """Raises `BadRequest` that names the field."""
    found = silenced_of(fields.get("matchers", ""), "matchers")
    if found.patterns:
        raise BadRequest("matchers: a route has no patterns; write label=value", field="matchers")
    position = fields.get("position", "").strip()
    said = {"name": fields.get("name", "").strip(), "owner": fields.get("owner", "").strip()}
    lists = {"matchers": found.matchers, "group_by": words(fields.get("group_by", ""))}
    return made(RouteCreate, {**said, **lists, **({"position": position} if position else {})})


def wanted_inhibit_rule(fields: Mapping[str, str]) -> InhibitRuleCreate:
    """Raises `BadRequest` that names the field."""
    sides = {name: silenced_of(fields.get(name, ""), name) for name in ("source", "target")}
    for name, side in sides.items():
        if not side.matchers and not side.patterns:
            raise BadRequest(f"{name}: give a label and its value, as in severity=page", field=name)
    said = {"name": fields.get("name", "").strip(), "equal": words(fields.get("equal", ""))}
    return made(InhibitRuleCreate, {**said, **sides})


def silenced_of(text: str, field: str) -> Silenced:
    """Of lines. Raises `BadRequest`."""
    matchers: dict[str, str] = {}
    patterns: dict[str, str] = {}
    for line in (line.strip() for line in text.splitlines()):
        if not line:
            continue
        label, equals, value = line.partition("=")
        into = patterns if value.startswith("~") else matchers
        label, value = label.strip(), value.removeprefix("~").strip()
        if not equals or not label:
            raise BadRequest(f"{field}: {line[:80]!r} wants label=value, or label=~pattern", field=field)
        if label in into:
            raise BadRequest(f"{field}: {label} is given twice", field=field)
        into[label] = value
    return made(Silenced, {"matchers": matchers, "patterns": patterns})


def lines_of(matched: Silenced) -> str:
    found = [f"{label}={value}" for label, value in matched.matchers.items()]
    return "\n".join([*found, *(f"{label}{LIKE}{text}" for label, text in matched.patterns.items())])


def route_said(route: Route) -> dict[str, str]:
    """The form of a route that is there."""
    labels, position = lines_of(Silenced(matchers=route.matchers)), str(route.position)
    return dict(zip(ROUTE, (route.name, route.owner, labels, ", ".join(route.group_by), position), strict=True))


def inhibit_rule_said(rule: InhibitRule) -> dict[str, str]:
    """The form of an inhibit rule that is there."""
    sides = lines_of(rule.source), lines_of(rule.target)
    return dict(zip(INHIBIT_RULE, (rule.name, *sides, ", ".join(rule.equal)), strict=True))


def is_written(one: Route | InhibitRule) -> bool:
    """Whether its form says what it is: a value that begins with ~, or ends with a space, is the API's to change."""
    try:
        if isinstance(one, Route):
            return wanted_route(route_said(one)) == RouteCreate(**one.model_dump(include=set(RouteCreate.model_fields)))
        wanted = InhibitRuleCreate(**one.model_dump(include=set(InhibitRuleCreate.model_fields)))
        return wanted_inhibit_rule(inhibit_rule_said(one)) == wanted
    except BadRequest:
        return False
