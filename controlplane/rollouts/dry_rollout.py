"""What a request about a rollout would do, found by doing it and taking all of it back (dry run).

Guarantee: nothing is left behind, in rows or in the ledger, and no agent is poked.
"""

from collections.abc import Callable

from sqlmodel import Session

from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutForecast
from controlplane.contract.changes.blast_radius import BlastRadius
from controlplane.fleet import store as fleet
from controlplane.rollouts.facts import drawn
from controlplane.rollouts.outlook import sentences, waves_of
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.stages import sizes
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


def _forecast(session: Session, would_be: Rollout, radius_of: RadiusOf) -> RolloutForecast:
    spec = would_be.spec
    views = policies.tellable(session, spec.pool)
    told = would_be.told_nodes
    if not told:  # As it would be drawn now.
        fit = [view for view in drawn(views, would_be.id) if view.connected and view.healthy]
        told = [view.node for view in fit[: sizes(spec, len(views))[0]]]
    order = [*told, *(view.node for view in views if view.node not in told)]
    waves = waves_of(spec, len(views), order)
    ends = [wave.nodes for wave in waves]
    found = findings(fleet.revision(session, spec.revision).knobs.knobs(), views)
    return RolloutForecast(
        rollout=would_be,
        waves=waves,
        longest_s=longest_s(spec, ends),
        says=sentences(spec, waves),
        blast_radius=radius_of(spec),
        findings=found[:MOST_TOLD],
        more_findings=max(len(found) - MOST_TOLD, 0),
    )
