"""What a request about a rollout would do, found by doing it and taking all of it back (dry run).

Guarantee: nothing is left behind, in rows or in the ledger, and no agent is poked.
"""

from collections.abc import Callable

from sqlmodel import Session

from controlplane.contract.bodies.rollouts import Rollout, RolloutForecast
from controlplane.rollouts.facts import drawn
from controlplane.rollouts.outlook import sentences, waves_of
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.stages import sizes
from controlplane.rollouts.time_bounds import longest_s


def forecast(session: Session, act: Callable[[], Rollout]) -> RolloutForecast:
    """The rollout that `act` would answer with, its waves by node as the fleet is now, and the longest time."""
    savepoint = session.begin_nested()
    try:
        would_be = act()
        return _forecast(session, would_be)
    finally:
        savepoint.rollback()


def _forecast(session: Session, would_be: Rollout) -> RolloutForecast:
    spec = would_be.spec
    views = policies.tellable(session, spec.pool)
    told = would_be.told_nodes
    if not told:  # As it would be drawn now.
        fit = [view for view in drawn(views, would_be.id) if view.connected and view.healthy]
        told = [view.node for view in fit[: sizes(spec, len(views))[0]]]
    order = [*told, *(view.node for view in views if view.node not in told)]
    waves = waves_of(spec, len(views), order)
    ends = [wave.nodes for wave in waves]
    return RolloutForecast(rollout=would_be, waves=waves, longest_s=longest_s(spec, ends), says=sentences(spec, waves))
