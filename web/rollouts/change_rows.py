"""What a configuration changes, knob by knob: from what to what, by which class of change, and what that takes.

Guarantee: nothing is made up. What no node has told, or nobody has measured, is said to be so.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.change import class_of, needed_class
from controlplane.contract.bodies.nodes import ChangeCost, FleetColumns, NodeRole, NodeView
from controlplane.contract.knobs import ChangeClass, Knob, difference
from controlplane.contract.reports.declared_knobs import by_some, knob_of, names_in_order
from web.frame.format import seconds

MOST_READ = 6
"""Nodes of a pool that are read, one of each configuration that runs there."""
_EASIEST_FIRST = (ChangeClass.LIVE, ChangeClass.SWAP, ChangeClass.RESTART)


@dataclass(frozen=True)
class ChangedKnob:
    """`before`: None where it is not known. `change`: the hardest class on the nodes looked at; None: none has told."""

    knob: Knob
    before: Any
    after: Any
    change: ChangeClass | None
    price: str


def standing_for(client: Client, pool: str) -> list[NodeView]:
    """Serving nodes of a pool that stand for the others: of those that run alike one, heard from where one is."""
    fleet = client.fleet(pool)
    places = [place for place, role in enumerate(fleet.role) if role is NodeRole.SERVING]
    first: dict[str, str] = {}
    for place in sorted(places, key=lambda place: fleet.state[place] == "offline"):
        first.setdefault(fleet.config_hash[place], fleet.node[place])
    return [client.node(name) for name in list(first.values())[:MOST_READ]]


def production_of(fleet: FleetColumns) -> int | None:
    """The revision that most serving nodes should run: their pool's; None where none is known."""
    told = [
        number
        for number, role in zip(fleet.desired_revision, fleet.role, strict=True)
        if role is NodeRole.SERVING and number
    ]
    return Counter(told).most_common(1)[0][0] if told else None


def changed_knobs(
    before: Mapping[str, Any] | None, after: Mapping[str, Any], nodes: Sequence[NodeView]
) -> list[ChangedKnob]:
    """In the contract's order, then those that nodes declare; with nothing known of before, every knob. A declared one
    that is not named any more goes back to its start."""
    declared = by_some(node.effective.declared for node in nodes if node.effective is not None)
    gone = {name: declared[name][0].start for name in before or {} if name not in after and name in declared}
    after = {**gone, **after}
    found = difference(after, before or {}, unreported=True)
    return [_changed(knob_of(name, declared), found[name][1], after[name], nodes) for name in names_in_order(found)]


def _changed(knob: Knob, before: Any, after: Any, nodes: Sequence[NodeView]) -> ChangedKnob:
    told = [(node, _class(node, knob, after)) for node in nodes if node.effective is not None]
    hardest = max((change for _, change in told), key=_EASIEST_FIRST.index, default=None)
    costs = [
        None if node.effective is None else node.effective.costs.get(change)
        for node, change in told
        if change is hardest
    ]
    return ChangedKnob(knob, before, after, hardest, _price(hardest, costs))


def _class(node: NodeView, knob: Knob, after: Any) -> ChangeClass:
    """By what it runs now, live limits counted; where it runs the value already, the knob's own."""
    assert node.effective is not None  # Of those that have told it.
    needed = needed_class(node.backend, node.effective, {**node.effective.knobs, knob.name: after})
    return class_of(knob.name, node.backend, node.effective) if needed is None else needed


def _price(change: ChangeClass | None, costs: Sequence[ChangeCost | None]) -> str:
    if change is None:
        return "no node has told what it takes"
    if change is ChangeClass.LIVE:
        return "requests do not wait"
    known = [cost for cost in costs if cost is not None]
    if not known:
        return "nobody has measured it here"
    waits, whole = max(cost.unavailable_s for cost in known), max(cost.mean_s for cost in known)
    waited = f"requests wait {seconds(waits)}" if waits else "requests do not wait"
    return f"{waited}; in force after {seconds(whole)}"
