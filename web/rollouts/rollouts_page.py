"""Rollouts: the list, and one rollout with what its nodes run."""

from collections.abc import Sequence
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import NOT_BEGUN, Rollout
from controlplane.contract.errors import Conflict
from controlplane.contract.knobs import KNOBS
from web.access.viewer import scope_of
from web.frame.page import Context, Page, Part, number
from web.frame.selection import Selection
from web.rollouts import arm_charts
from web.rollouts.judgements import judgements
from web.rollouts.rollout_steps import buttons_of, steps_of

NODES_AT_END = "nodes_at_end"
"""The part of a rollout's evidence that says what each node ran when it ended."""


def rollouts(client: Client, selection: Selection) -> Context:
    """Those of the pool and the time, where the address says one."""
    found = [rollout for rollout in client.rollouts() if selection.pool in (None, rollout.spec.pool)]
    return {"rollouts": [rollout for rollout in found if selection.covers(rollout.created_at, rollout.ended_at)]}


def rollout(client: Client, selection: Selection) -> Context:
    """What its nodes run today is its own only while it is under way; afterwards it stands apart."""
    found = client.rollout(number(selection, "rollout"))
    previous = client.config(found.previous_revision) if found.previous_revision else None
    at_end = _ran_at_end(found)
    names = list(dict.fromkeys([*found.canary_nodes, *found.control_nodes, *at_end]))
    return {
        "rollout": found,
        "wanted": client.config(found.spec.revision),
        "previous": previous,
        "node_names": names,
        "runs_now": runs_now(client, found.spec.pool, names),
        "ran_at_end": at_end,
        "knobs": list(KNOBS),
        "reach": _reach(client, found),
        "steps": steps_of(found),
        "buttons": buttons_of(found, scope_of(client)),
        "waits": found.phase in NOT_BEGUN and found.needs_approval,
    }


def _reach(client: Client, found: Rollout) -> list[str]:
    """Whom it can hurt, in sentences, before it has begun; empty where its pool has no nodes."""
    if found.phase not in NOT_BEGUN:
        return []
    try:
        return client.blast_radius(found.id).says
    except Conflict:
        return []


def runs_now(client: Client, pool: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Knobs by node. Of nodes that run alike, as the whole fleet's columns tell, one is read; a node that has left the
    pool, or has not told, has none."""
    fleet = client.fleet(pool)
    hashes = dict(zip(fleet.node, fleet.config_hash, strict=True))
    first: dict[str, str] = {}
    for name in names:
        if hashes.get(name):
            first.setdefault(hashes[name], name)
    knobs = {hashed: _runs(client.node(name)) for hashed, name in first.items()}
    return {name: knobs.get(hashes.get(name, ""), {}) for name in names}


def _runs(node: NodeView) -> dict[str, Any]:
    return {} if node.effective is None else node.effective.knobs


def _ran_at_end(found: Rollout) -> dict[str, dict[str, Any]]:
    """Knobs by node as the rollout itself wrote them down when it ended; empty where it did not, or a node was away."""
    kept = found.evidence.get(NODES_AT_END)
    if not isinstance(kept, dict):
        return {}
    return {name: {} if node is None else node["knobs"] for name, node in kept.items()}


def evidence(client: Client, selection: Selection) -> Context:
    """What the canary and each wave were found to be, the newest open."""
    found = client.rollout(number(selection, "rollout"))
    return {
        "number": found.id,
        "ended": found.ended_at is not None,
        "judgements": judgements(found),
        "has_evidence": bool(found.evidence),
        "why_none": _why_none(found),
    }


def _why_none(found: Rollout) -> str:
    if found.plan is None and found.spec.emergency:
        return "An emergency change is not judged: nothing is compared."
    return "Nothing was judged." if found.ended_at else "Nothing is judged yet."


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` for a rollout that there is not."""
    return {"number": client.rollout(number(selection, "rollout")).id, "arm_charts": arm_charts.CHARTS}


LIST = Page("rollouts", "/rollouts", "Rollouts", (Part("rollouts", rollouts),), key="r", any_time=True)
PAGE = Page(
    "rollout",
    "/rollouts/{rollout}",
    "Rollout",
    (Part("rollout", rollout), Part("rollout_evidence", evidence), *arm_charts.CHARTS),
    section="rollouts",
    bar=False,
    whole=whole,
    scripts=("charts.js",),
)
