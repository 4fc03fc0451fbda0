"""One rollout: four questions at a glance, what its nodes run wave by wave, its evidence, and what happened."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.nodes import FleetColumns, NodeView
from controlplane.contract.bodies.rollouts import ENDED, NOT_BEGUN, Rollout, RolloutPhase
from controlplane.contract.changes.blast_radius import BlastRadius
from controlplane.contract.errors import Conflict
from controlplane.contract.reports.declared_knobs import names_in_order
from web.access.viewer import scope_of
from web.frame.page import Context, Page, Part, number
from web.frame.selection import Selection
from web.rollouts import arm_charts
from web.rollouts.change_rows import changed_knobs, production_of, standing_for
from web.rollouts.four_answers import comes_next, finding, hurts
from web.rollouts.holds import Hold, by_label, holds
from web.rollouts.judgements import judgements
from web.rollouts.rollout_steps import buttons_of, steps_of
from web.rollouts.wave_rows import NODES_AT_END, ran_at_end, wave_rows

MOST_TOLD = 30


def rollout(client: Client, selection: Selection) -> Context:
    """Where it is, and the four answers."""
    found = client.rollout(number(selection, "rollout"))
    pool, wanted = found.spec.pool, client.config(found.spec.revision)
    number_before = found.previous_revision
    if found.phase in NOT_BEGUN:
        number_before = production_of(client.fleet(pool))
    previous = client.config(number_before) if number_before else None
    judged = judgements(found)
    before = None if previous is None else previous.knobs.knobs()
    return {
        "rollout": found,
        "steps": steps_of(found),
        "buttons": buttons_of(found, scope_of(client)),
        "waits": found.phase in NOT_BEGUN and found.needs_approval,
        "changes": changed_knobs(before, wanted.knobs.knobs(), standing_for(client, pool)),
        "hurts": hurts(found, _radius(client, found)),
        "pinned": found.evidence.get("pinned", {}),
        "number_before": number_before,
        "judged": judged,
        "finding": finding(found, judged),
        "next": comes_next(found, selection.now),
        "holds": _holds(client, found, selection.now),
    }


def _holds(client: Client, found: Rollout, now: datetime) -> list[Hold]:
    """Of what has not begun all that bounds it; under way what stops it."""
    if found.phase in ENDED:
        return []
    all_of = holds(client, found.spec.pool, found.spec.revision, now)
    return [one for one in all_of if one.stops or found.phase in NOT_BEGUN]


def _radius(client: Client, found: Rollout) -> BlastRadius | None:
    """As the fleet is now; None where it has ended, or its pool has no nodes."""
    if found.phase in ENDED or found.phase is RolloutPhase.ROLLING_BACK:
        return None
    try:
        return client.blast_radius(found.id)
    except Conflict:
        return None


def waves(client: Client, selection: Selection) -> Context:
    """What its nodes run today is its own only while it is under way; afterwards it stands apart."""
    found = client.rollout(number(selection, "rollout"))
    previous = client.config(found.previous_revision) if found.previous_revision else None
    wanted = client.config(found.spec.revision)
    at_end = _knobs_at_end(found)
    names = list(dict.fromkeys([*found.canary_nodes, *found.control_nodes, *at_end]))
    fleet = client.fleet(found.spec.pool)
    runs = ran_at_end(found) if found.ended_at else revisions_now(fleet)
    told = len(found.told_nodes)
    planned = [] if found.ended_at else [(place, one) for place, one in enumerate(found.waves, 1) if one.nodes > told]
    return {
        "rollout": found,
        "waves": wave_rows(found, judgements(found), runs),
        "by_label": [] if found.spec.emergency else list(by_label(found.spec)),
        "planned": [{"place": place, "says": one.says} for place, one in planned],
        "wanted": wanted,
        "previous": previous,
        "node_names": names,
        "runs_now": runs_now(client, fleet, names),
        "ran_at_end": at_end,
        "knobs": names_in_order([*wanted.knobs.knobs(), *(() if previous is None else previous.knobs.knobs())]),
    }


def revisions_now(fleet: FleetColumns) -> dict[str, int | None]:
    """What each node says that it runs; one that runs its pool's without ever having been given it counts so."""
    adopted = [
        revision == 0 and since is None for revision, since in zip(fleet.revision, fleet.drift_since, strict=True)
    ]
    numbers = zip(fleet.node, fleet.revision, fleet.desired_revision, adopted, strict=True)
    return {node: desired if is_adopted else revision for node, revision, desired, is_adopted in numbers}


def runs_now(client: Client, fleet: FleetColumns, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Knobs by node. Of nodes that run alike, as the whole fleet's columns tell, one is read; a node that has left the
    pool, or has not told, has none."""
    hashes = dict(zip(fleet.node, fleet.config_hash, strict=True))
    first: dict[str, str] = {}
    for name in names:
        if hashes.get(name):
            first.setdefault(hashes[name], name)
    knobs = {hashed: _runs(client.node(name)) for hashed, name in first.items()}
    return {name: knobs.get(hashes.get(name, ""), {}) for name in names}


def _runs(node: NodeView) -> dict[str, Any]:
    return {} if node.effective is None else node.effective.knobs


def _knobs_at_end(found: Rollout) -> dict[str, dict[str, Any]]:
    """Knobs by node as the rollout itself wrote them down when it ended; empty where it did not, or a node was away."""
    kept: Mapping[str, Any] | None = found.evidence.get(NODES_AT_END)
    return {name: {} if node is None else node["knobs"] for name, node in kept.items()} if kept else {}


def evidence(client: Client, selection: Selection) -> Context:
    """What the canary and each wave were found to be, the newest open."""
    found = client.rollout(number(selection, "rollout"))
    return {
        "number": found.id,
        "judgements": judgements(found),
        "has_evidence": bool(found.evidence),
        "why_none": _why_none(found),
    }


def _why_none(found: Rollout) -> str:
    if found.plan is None and found.spec.emergency:
        return "An emergency change is not judged: nothing is compared."
    return "Nothing was judged." if found.ended_at else "Nothing is judged yet."


def story(client: Client, selection: Selection) -> Context:
    """What the ledger has of it: by whom, and when it took each step."""
    found = client.rollout(number(selection, "rollout"))
    subject = f"rollout/{found.id}"
    return {
        "rollout": found,
        "entries": client.ledger(limit=MOST_TOLD, subject=subject),
        "all_entries": selection.frame_query(subject=subject, **{"from": None, "to": None}),
    }


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` for a rollout that there is not."""
    return {"number": client.rollout(number(selection, "rollout")).id, "arm_charts": arm_charts.CHARTS}


PAGE = Page(
    "rollout",
    "/rollouts/{rollout}",
    "Rollout",
    (
        Part("rollout", rollout),
        Part("rollout_waves", waves),
        Part("rollout_evidence", evidence),
        *arm_charts.CHARTS,
        Part("rollout_story", story, 10),
    ),
    section="rollouts",
    bar=False,
    whole=whole,
    scripts=("charts.js",),
)
