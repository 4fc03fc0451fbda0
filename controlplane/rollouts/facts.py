"""What a rollout may believe of nodes (pure): does the engine, read back, run a revision?"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import ConfigStatus, NodeView
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.changes.label_selector import parsed
from controlplane.contract.knobs import difference
from controlplane.contract.reports.declared_knobs import started_as
from controlplane.rollouts.decision import NodeFact
from controlplane.rollouts.stages import NO_GROUP

UNASSIGNED = 0
"""The revision number of an engine that was never given one."""


def runs(view: NodeView, revision: Revision | None) -> bool:
    """True when the engine says it runs this revision and no knob that it reports says otherwise.

    An engine that was never given a revision runs one when it reports every knob with that revision's value: a pool's
    first revision is adopted from what its nodes run, without disturbing them.
    """
    if revision is None or view.effective is None:
        return False
    unassigned = view.effective.revision == UNASSIGNED
    if not unassigned and view.effective.revision != revision.number:
        return False
    wanted = started_as(view.effective.declared, revision.knobs.knobs())
    return not difference(wanted, view.effective.knobs, unreported=unassigned)


class _Runs:
    """`runs`, of many nodes that are held meanwhile: what they report alike is one object, and compared once."""

    def __init__(self, revision: Revision | None) -> None:
        self._revision = revision
        self._found: dict[int, bool] = {}

    def __call__(self, view: NodeView) -> bool:
        key = id(view.effective)
        if key not in self._found:
            self._found[key] = runs(view, self._revision)
        return self._found[key]


def node_facts(
    views: Sequence[NodeView], new: Revision, previous: Revision | None, lost_s: Mapping[str, float] | None = None
) -> list[NodeFact]:
    """The machine's view of these nodes. lost_s: by node, for how long it is lost."""
    runs_new, runs_previous, lost = _Runs(new), _Runs(previous), lost_s or {}
    return [_node_fact(view, new, runs_new(view), runs_previous(view), lost.get(view.node, 0.0)) for view in views]


def _node_fact(view: NodeView, new: Revision, runs_new: bool, runs_previous: bool, lost_s: float) -> NodeFact:
    """A failed application counts while it speaks of what the node should run now."""
    failed = view.config_status is ConfigStatus.FAILED and view.desired_revision == new.number
    return NodeFact(
        node=view.node,
        connected=view.connected,
        healthy=view.healthy,
        runs_new=runs_new,
        runs_previous=runs_previous,
        error=(view.config_error or "the agent gave no reason") if failed else None,
        health_detail=view.health_detail,
        lost_s=lost_s,
    )


def placed(
    facts: Sequence[NodeFact], views: Sequence[NodeView], spec: RolloutCreate, known: Mapping[str, str]
) -> list[NodeFact]:
    """The facts of these views with the group of each, and whether it may be the canary.

    known: groups that the rollout has found before, by node: a node's stays the same for it.
    """
    selector = parsed(spec.canary_selector)
    groups = groups_of(views, spec, known)
    return [
        replace(fact, group=groups[view.node], may_be_canary=selector.matches(view.selectable))
        for fact, view in zip(facts, views, strict=True)
    ]


def groups_of(views: Sequence[NodeView], spec: RolloutCreate, known: Mapping[str, str]) -> dict[str, str]:
    """By node the value of the label that waves go by."""
    now = {view.node: view.selectable.get(spec.wave_by, NO_GROUP) for view in views}
    return {node: known.get(node, group) for node, group in now.items()}


def labels(views: Sequence[NodeView], revision: Revision | None) -> list[str]:
    """The values of the label `revision` under which these nodes report when they run it, "" for none given."""
    found = {"", str(revision.number)} if revision is not None else {""}
    running = _Runs(revision)
    for view in views:
        if view.effective is not None and running(view):
            found.add(str(view.effective.revision))
    return sorted(found)


def drawn(views: Sequence[NodeView], rollout_id: int) -> list[NodeView]:
    """The nodes in the order in which a rollout tells them: at random, the typical ones first.

    Typical are those of the pool's most frequent backend, model and engine. The order follows from the rollout's
    number, so that it can be drawn again. The first by name would be the same node every time, whatever ails it.
    """
    kinds = Counter(_kind(view) for view in views)

    def place(view: NodeView) -> tuple[int, bytes]:
        return -kinds[_kind(view)], hashlib.sha256(f"node {view.node} in rollout {rollout_id}".encode()).digest()

    return sorted(views, key=place)


def _kind(view: NodeView) -> tuple[str, ...]:
    return view.backend, view.model or "", view.engine_version
