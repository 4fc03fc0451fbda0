"""The settings' tab of routes, inhibit rules and silences: what is there, and which of it a form makes or changes."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.client import Client
from controlplane.contract.bodies.alerts import InhibitRule, Silence
from controlplane.contract.errors import NotFound
from controlplane.contract.on_call.incidents import Route
from web.access.viewer import may_operate
from web.frame.page import Context
from web.frame.selection import Selection, is_number
from web.settings.routing_fields import inhibit_rule_said, is_written, lines_of, route_said
from web.settings.wanted_silence import USUAL as SILENCE

NEW = "new"
FORMS = {"route": "/settings/routes", "inhibit-rule": "/settings/inhibit-rules", "silence": "/settings/silences"}
"""What a form makes or changes, and where it is sent."""
USUAL: Mapping[str, Mapping[str, str]] = {
    "route": {"group_by": "pool", "position": "100"},
    "inhibit-rule": {"equal": "pool"},
    "silence": SILENCE,
}
"""What a new one's form says."""


@dataclass(frozen=True)
class Editing:
    """One form. number: of what is changed, None for a new one; origin: the file that made it."""

    kind: str
    number: int | None
    said: Mapping[str, str]
    origin: str | None = None

    @property
    def action(self) -> str:
        return FORMS[self.kind] + ("" if self.number is None else f"/{self.number}")

    @property
    def title(self) -> str:
        words = self.kind.replace("-", " ")
        return f"A new {words}" if self.number is None else f"{words.capitalize()} {self.number}"


def routing(client: Client, selection: Selection) -> Context:
    """Routes in the order in which they are asked; silences that hold, the one that ends first before the others."""
    rules, silences = client.inhibit_rules(), [one for one in client.silences() if holds(one, selection)]
    routes = sorted(client.routes(), key=lambda route: (route.position, route.id))
    return {
        "routes": [(one, is_written(one)) for one in routes],
        "inhibit_rules": [(one, is_written(one)) for one in rules],
        "silences": sorted(silences, key=lambda one: (one.ends_at, one.id)),
        "may_operate": may_operate(client),
        "labels": lambda matched: lines_of(matched).splitlines(),
    }


def holds(silence: Silence, selection: Selection) -> bool:
    return silence.ended_early_at is None and silence.ends_at > selection.now


def editing_of(client: Client, what: str) -> Editing | None:
    """What the address wants to have made or changed: "route/new", "inhibit-rule/3". Raises `NotFound`."""
    if not what or not may_operate(client):
        return None
    kind, _, text = what.partition("/")
    if kind in FORMS and text == NEW:
        return Editing(kind, None, USUAL[kind])
    number = int(text) if is_number(text) else 0
    found: list[Route] | list[InhibitRule]
    found = client.routes() if kind == "route" else client.inhibit_rules() if kind == "inhibit-rule" else []
    for one in found:
        if one.id == number and is_written(one):
            said = route_said(one) if isinstance(one, Route) else inhibit_rule_said(one)
            return Editing(kind, number, said, one.origin)
    raise NotFound(f"no {what[:40]!r} to change here", field="edit")
