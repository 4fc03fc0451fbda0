"""Policies, freeze windows and pins: who may change a pool, how much at once, when, and what stays as it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.errors import NotFound
from web.access.viewer import may_operate, scope_of
from web.frame.page import Context, Page, Part
from web.frame.second_step import Ending
from web.frame.selection import Selection, is_number
from web.rollouts.guard_fields import FIELDS, UNDECIDED, policy_said
from web.rollouts.holds import PAGE_PATH, by_label, hours_words

NEW = "new"
OVER_FOR = timedelta(days=30)
"""Windows that ended longer ago are in the ledger."""
TITLES = {"policy": "Policy of a pool", "freeze": "A new freeze window", "pin": "A new pin"}


@dataclass(frozen=True)
class Editing:
    """The form that stands open, as it is filled in. `kind`: of `FIELDS`."""

    kind: str
    said: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return TITLES[self.kind]

    @property
    def action(self) -> str:
        return f"{PAGE_PATH}/{self.kind}"


def guards(client: Client, selection: Selection) -> Context:
    """Those of the pool, where the address says one."""
    pool, now = selection.pool, selection.now
    windows = [one for one in client.freezes() if pool is None or one.pool in (None, pool)]
    return {
        "policies": [
            (one, hours_words(one.hours) if one.hours else "", one.hours is None or one.hours.is_open(now))
            for one in client.rollout_policies()
            if pool in (None, one.pool)
        ],
        "undecided": UNDECIDED,
        "by_label": by_label,
        "freezes": [one for one in windows if one.ends_at > now],
        "over": [one for one in windows if now - OVER_FOR < one.ends_at <= now],
        "pins": [one for one in client.pins() if pool in (None, one.pool)],
        "now": now,
        "may_operate": may_operate(client),
        "is_admin": scope_of(client) is Scope.ADMIN,
    }


def whole(client: Client, selection: Selection) -> Context:
    """What is to be made, changed or ended, if anything. Raises `NotFound` for what there is not."""
    editing = editing_of(client, selection)
    return {"ending": ending_of(client, selection.own.get("end", ""))} | form_context(client, editing)


def form_context(client: Client, editing: Editing | None) -> Context:
    """What the open form offers."""
    fleet = client.fleet()
    serving = [place for place, role in enumerate(fleet.role) if role is NodeRole.SERVING]
    return {
        "editing": editing,
        "said": {} if editing is None else editing.said,
        "pools": sorted({fleet.pool[place] for place in serving}),
        "nodes": sorted(fleet.node[place] for place in serving)[:300],
        "choices": UNDECIDED,
        "may_operate": may_operate(client),
        "is_admin": scope_of(client) is Scope.ADMIN,
    }


def editing_of(client: Client, selection: Selection) -> Editing | None:
    """What the address wants to have made or changed: "policy/new", "policy/3", "freeze/new", "pin/new"."""
    what = selection.own.get("edit", "")
    if not what or not may_operate(client):
        return None
    kind, _, number = what.partition("/")
    if kind in FIELDS and number == NEW:
        given = {name: selection.filters.get(name, "") for name in ("pool", "node")}
        return Editing(kind, {name: given.get(name, "") for name in FIELDS[kind]})
    if kind == "policy" and is_number(number):
        for one in client.rollout_policies():
            if one.id == int(number):
                return Editing(kind, policy_said(one))
    raise NotFound(f"no {what[:40]!r} to change here", field="edit")


def ending_of(client: Client, what: str) -> Ending | None:
    """What the address wants to have ended: "freeze/7". Raises `NotFound` for what there is not."""
    if not what:
        return None
    kind, _, text = what.partition("/")
    wanted = int(text) if is_number(text) else 0
    offered = {"policy": _policies, "freeze": _freezes, "pin": _pins}
    found = next((one for one in offered[kind](client) if one.number == wanted), None) if kind in offered else None
    if found is None:
        raise NotFound(f"no {what[:40]!r} to end", field="end")
    return found


def _policies(client: Client) -> list[Ending]:
    loses = "Nothing but scopes holds there any more."
    return [
        Ending(f"{PAGE_PATH}/policy", one.id, f"Remove the policy of pool {one.pool}?", loses, "Remove it")
        for one in client.rollout_policies()
    ]


def _freezes(client: Client) -> list[Ending]:
    loses = "Rollouts that wait for its end go on at once."
    return [
        Ending(f"{PAGE_PATH}/freeze", one.id, f"Lift freeze {one.id}, {one.reason}?", loses, "Lift it")
        for one in client.freezes()
    ]


def _pins(client: Client) -> list[Ending]:
    return [
        Ending(
            f"{PAGE_PATH}/pin",
            one.id,
            f"Unpin {'pool ' + one.pool if one.node is None else one.node}?",
            "It follows rollouts again." if one.node is None else "It is given its pool's revision at once.",
            "Unpin it",
        )
        for one in client.pins()
    ]


PAGE = Page(
    "guards",
    PAGE_PATH,
    "Policies, freezes and pins",
    (Part("guards", guards, 10),),
    section="rollouts",
    bar=False,
    whole=whole,
)
