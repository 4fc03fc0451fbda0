"""What the machine reads from the facts of nodes (pure): who runs the revision, who failed, who is lost, in words."""

from datetime import datetime

from controlplane.contract.reports.opamp import LEASE_ENDED
from controlplane.rollouts.decision import Facts, NodeFact, State

LOST_GRACE_S = 20.0
"""A canary node may be out of sight, or not run its revision, for this long while it is judged: agents reconnect."""


def facts_of(names: tuple[str, ...], facts: Facts) -> tuple[NodeFact, ...]:
    wanted = frozenset(names)
    return tuple(fact for fact in facts.nodes if fact.node in wanted)


def not_running_new(names: tuple[str, ...], facts: Facts) -> tuple[str, ...]:
    running = {fact.node for fact in facts.nodes if fact.connected and fact.healthy and fact.runs_new}
    return tuple(name for name in names if name not in running)


def failed_of(facts: tuple[NodeFact, ...]) -> str | None:
    for fact in facts:
        if fact.error is not None:
            left = fact.error.startswith(LEASE_ENDED)
            return f"{fact.node} {'left it' if left else 'could not apply it'}: {fact.error}"
    return None


def broken(names: tuple[str, ...], facts: tuple[NodeFact, ...]) -> str | None:
    """Why the canary can no longer be judged, if it cannot."""
    gone = set(names) - {fact.node for fact in facts}
    if gone:
        return f"canary node {min(gone)} has left the pool"
    for fact in facts:
        if fact.connected and not fact.healthy:
            return f"canary node {fact.node} became unhealthy{': ' if fact.health_detail else ''}{fact.health_detail}"
        if fact.lost_s >= LOST_GRACE_S:
            what = "no longer runs the revision" if fact.connected else "is disconnected"
            return f"canary node {fact.node} {what} since {fact.lost_s:.0f} s"
    return None


def step_s(state: State, now: datetime) -> float:
    return (now - (state.step_since or now)).total_seconds() - state.away_s


def late(waiting: tuple[str, ...], state: State) -> str:
    spec = state.spec
    return f"{names_of(waiting)} not confirmed to run revision {spec.revision} within {state.apply_timeout_s:.0f} s"


def names_of(nodes: tuple[str, ...]) -> str:
    return ", ".join(nodes) if len(nodes) <= 5 else f"{', '.join(nodes[:4])} and {len(nodes) - 4} more"
