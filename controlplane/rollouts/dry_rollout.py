"""What a request about a rollout would do, found by doing it and taking all of it back (dry run).

Guarantee: nothing is left behind, in rows or in the ledger, and no agent is poked.
"""

from collections.abc import Callable, Sequence

from sqlmodel import Session

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutForecast
from controlplane.contract.changes.blast_radius import BlastRadius
from controlplane.contract.errors import Conflict
from controlplane.fleet import store as fleet
from controlplane.rollouts import machine, store
from controlplane.rollouts.facts import drawn, groups_of, node_facts, placed
from controlplane.rollouts.outlook import sentences, waves_of
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.stages import grouped
from controlplane.rollouts.time_bounds import longest_s
from controlplane.rollouts.validation.checker import MOST_TOLD
from controlplane.rollouts.validation.node_findings import findings

RadiusOf = Callable[[RolloutCreate], BlastRadius | None]
"""What a rollout would reach, as the fleet is now; None where its pool has no node that may be told."""


def forecast(session: Session, act: Callable[[], Rollout], radius_of: RadiusOf) -> RolloutForecast:
    """The rollout that `act` would answer with, its waves by node as the fleet is now, whom it can hurt, what is to be
    known of its nodes, and the longest time."""
    savepoint = session.begin_nested()
    try:
        would_be = act()
        return _forecast(session, would_be, radius_of)
    finally:
        savepoint.rollback()


def _canary(spec: RolloutCreate, revision: Revision, views: Sequence[NodeView]) -> tuple[str, ...]:
    """As it would be drawn now; none where it could not begin."""
    if spec.emergency:
        return ()
    try:
        return machine.canary_of(spec, placed(node_facts(views, revision, None), views, spec, {}))
    except Conflict:  # One that is only proposed; its start would say so.
        return ()


def _forecast(session: Session, would_be: Rollout, radius_of: RadiusOf) -> RolloutForecast:
    spec = would_be.spec
    views = policies.tellable(session, spec.pool)
    revision = fleet.revision(session, spec.revision)
    groups = groups_of(views, spec, store.row_of(session, would_be.id).node_groups)
    told = would_be.told_nodes or list(_canary(spec, revision, drawn(views, would_be.id)))
    order = grouped(groups, told, spec.wave_order, len(would_be.canary_nodes or told) or None)
    places = {group: place for place, (group, _) in enumerate(order.counts)}
    rest = sorted((node for node in groups if node not in told), key=lambda node: places[groups[node]])
    waves = waves_of(spec, order, [*told, *rest])
    found = findings(revision.knobs.knobs(), views)
    return RolloutForecast(
        rollout=would_be,
        waves=waves,
        longest_s=longest_s(spec, waves),
        says=sentences(spec, waves),
        blast_radius=radius_of(spec),
        findings=found[:MOST_TOLD],
        more_findings=max(len(found) - MOST_TOLD, 0),
    )
