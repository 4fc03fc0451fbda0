"""The blast radius of a rollout (pure): what it reaches, and whether that is within its limit.

Guarantee: nothing is made up. What nobody has measured is counted as unmeasured, and a limit on it does not hold.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from controlplane.contract.bodies.change import needed_class
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.changes.blast_radius import BlastLimit, BlastRadius, ClassReach
from controlplane.contract.errors import Conflict
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.share_text import share_text
from controlplane.rollouts.facts import groups_of
from controlplane.rollouts.stages import alike, sizes

MOST_NAMED = 20
HARDEST_FIRST = (ChangeClass.RESTART, ChangeClass.SWAP, ChangeClass.LIVE)


@dataclass(frozen=True)
class Traffic:
    """Requests of a while. by_node: of the pool's serving nodes; fleet: of all serving nodes; tenants: the pool's."""

    by_node: Mapping[str, float]
    fleet: float
    tenants: Sequence[str]


def blast_radius(
    spec: RolloutCreate, knobs: Mapping[str, Any], nodes: Sequence[NodeView], traffic: Traffic
) -> BlastRadius:
    """Of giving a whole configuration (JSON values by knob) to the pool's serving nodes, as they are now."""
    busiest = sorted((traffic.by_node.get(node.node, 0.0) for node in nodes), reverse=True)
    together = [busiest] if spec.emergency else _busiest_by_group(spec, nodes, traffic)
    at_once = max(after - before for before, after in pairwise([0, *sizes(spec, alike(len(nodes)))]))
    at_once = min(at_once, max(len(group) for group in together))  # No wave mixes groups, whichever is first.
    classes = {node.node: _class_on(node, knobs) for node in nodes if node.effective is not None}
    by_class = [found for change in HARDEST_FIRST if (found := _reach(change, nodes, classes)) is not None]
    unknown = len(nodes) - len(classes)
    radius = BlastRadius(
        nodes=len(nodes),
        nodes_at_once=at_once,
        traffic_share=sum(busiest) / traffic.fleet if traffic.fleet else None,
        traffic_share_at_once=max(sum(group[:at_once]) for group in together) / traffic.fleet
        if traffic.fleet
        else None,
        tenants=len(traffic.tenants),
        tenant_names=sorted(traffic.tenants)[:MOST_NAMED],
        by_class=by_class,
        unchanged=sum(found is None for found in classes.values()),
        unknown=unknown,
        unavailable_s=_longest(by_class, unknown),
    )
    return radius.model_copy(update={"says": list(_says(radius))})


def refuse_beyond(limit: BlastLimit | None, radius: BlastRadius) -> None:
    """Raises `Conflict` for the first part of the radius that is larger than the limit, or cannot be told."""
    if limit is None:
        return
    for name in BlastLimit.model_fields:
        most, found = getattr(limit, name), getattr(radius, name)
        if most is None or (found is not None and found <= most):
            continue
        is_so = "is not known" if found is None else f"would be {found:g}"
        raise Conflict(
            f"max_blast.{name}: {is_so}, and {most:g} is the most that this rollout may reach; {_MENDS[name]}",
            field=f"max_blast.{name}",
            blast_radius=radius.model_dump(mode="json"),
        )


_MENDS = {
    "nodes": "allow more, or split the pool",
    "nodes_at_once": "take a smaller canary_share, or allow more",
    "traffic_share": "allow more, or wait until the pool serves less",
    "traffic_share_at_once": "take a smaller canary_share, or allow more",
    "tenants": "allow more, or move tenants away first",
    "unavailable_s": "allow more, keep to what changes live, or measure it on a trial node",
}


def _busiest_by_group(spec: RolloutCreate, nodes: Sequence[NodeView], traffic: Traffic) -> list[list[float]]:
    """Requests of each group's nodes, the most first."""
    found: dict[str, list[float]] = {}
    for node, group in groups_of(nodes, spec, {}).items():
        found.setdefault(group, []).append(traffic.by_node.get(node, 0.0))
    return [sorted(group, reverse=True) for group in found.values()]


def _class_on(node: NodeView, knobs: Mapping[str, Any]) -> ChangeClass | None:
    assert node.effective is not None  # Of those that have told it.
    return needed_class(node.backend, node.effective, knobs)


def _reach(
    change: ChangeClass, nodes: Sequence[NodeView], classes: Mapping[str, ChangeClass | None]
) -> ClassReach | None:
    mine = [node.effective for node in nodes if node.effective is not None and classes[node.node] is change]
    if not mine:
        return None
    # A live change takes effect between two steps: nobody has to have measured that requests do not wait.
    costs = [cost.unavailable_s if (cost := one.costs.get(change)) is not None else None for one in mine]
    known = [0.0 if cost is None else cost for cost in costs if cost is not None or change is ChangeClass.LIVE]
    return ClassReach(
        change=change,
        nodes=len(mine),
        unmeasured=len(mine) - len(known),
        unavailable_s=max(known, default=0.0),
        node_seconds=sum(known),
    )


def _longest(by_class: Sequence[ClassReach], unknown: int) -> float | None:
    if unknown or any(one.unmeasured for one in by_class):
        return None
    return max((one.unavailable_s for one in by_class), default=0.0)


def _says(radius: BlastRadius) -> Iterator[str]:
    yield f"{_nodes(radius.nodes)}, at most {radius.nodes_at_once} at once"
    if radius.traffic_share is None or radius.traffic_share_at_once is None:
        yield "nobody was served in the last ten minutes"
    else:
        share, at_once = share_text(radius.traffic_share, 1), share_text(radius.traffic_share_at_once, 1)
        yield f"{share} of the fleet's requests of the last ten minutes, at most {at_once} at once"
    if radius.tenants:
        more = f", and {radius.tenants - MOST_NAMED} more" if radius.tenants > MOST_NAMED else ""
        yield f"{radius.tenants} tenants: {', '.join(radius.tenant_names)}{more}"
    for one in radius.by_class:
        yield f"{_nodes(one.nodes)} by {one.change.value}: {_time(one)}"
    if radius.unchanged:
        yield f"{_nodes(radius.unchanged)} unchanged"
    if radius.unknown:
        yield f"{_nodes(radius.unknown)} that have not said what they run"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _time(one: ClassReach) -> str:
    if one.change is ChangeClass.LIVE:
        return "requests do not wait" if not one.unavailable_s else f"requests wait {one.unavailable_s:.1f} s at most"
    if one.unmeasured == one.nodes:
        return "nobody has measured for how long requests wait"
    said = f"requests to one wait {one.unavailable_s:.0f} s at most, {one.node_seconds:.0f} node-seconds in all"
    return said + (f"; not measured on {one.unmeasured}" if one.unmeasured else "")
