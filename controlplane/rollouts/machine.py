"""How a rollout proceeds (pure): `advance(state, facts, now) -> Decision | None`. A controller carries it out.

Guarantees, for every sequence of facts:
- a phase follows another only where `TRANSITIONS` says so, and every phase but PROPOSED ends within its time-out;
- the pool's production revision changes only when every connected serving node already runs the new one (emergencies
  apart), so whatever stops half-way leaves the previous revision as the pool's own;
- a rollback always names the whole previous revision and takes back every node that was told otherwise;
- nothing is promoted on WORSE or INCONCLUSIVE;
- the next nodes are told only when those before them were judged: the canary beside the rest, then each wave, all nodes
  that run the revision beside the rest, and the last beside the time before. Harm takes all of them back.

A node counts as running a revision when the engine's configuration, read back, equals it (`facts.py`), never because
an agent has acknowledged it.
"""

import math
from collections.abc import Sequence
from datetime import datetime

from controlplane.contract.bodies.rollouts import ENDED, RolloutPhase, Verdict
from controlplane.contract.errors import Conflict
from controlplane.contract.reports.opamp import LEASE_ENDED
from controlplane.rollouts.decision import (
    Action,
    ClearOverrides,
    Decision,
    Facts,
    NodeFact,
    SetOverride,
    SetPoolRevision,
    State,
)

TRANSITIONS: dict[RolloutPhase, frozenset[RolloutPhase]] = {
    RolloutPhase.PROPOSED: frozenset({RolloutPhase.CANARY, RolloutPhase.PROMOTING, RolloutPhase.CANCELLED}),
    RolloutPhase.CANARY: frozenset({RolloutPhase.JUDGING, RolloutPhase.ROLLING_BACK}),
    RolloutPhase.JUDGING: frozenset({RolloutPhase.PROMOTING, RolloutPhase.PROMOTED, RolloutPhase.ROLLING_BACK}),
    RolloutPhase.PROMOTING: frozenset({RolloutPhase.JUDGING, RolloutPhase.PROMOTED, RolloutPhase.ROLLING_BACK}),
    RolloutPhase.ROLLING_BACK: frozenset({RolloutPhase.ROLLED_BACK, RolloutPhase.FAILED}),
    **{phase: frozenset[RolloutPhase]() for phase in ENDED},
}
"""PROPOSED goes to PROMOTING in an emergency only. After the canary PROMOTING and JUDGING alternate, wave by wave;
JUDGING goes to PROMOTED from the last, PROMOTING where nothing was told that has not been judged."""

GOING_BACK = "; going back to revision "
LOST_GRACE_S = 20.0
"""A canary node may be out of sight, or not run its revision, for this long while it is judged: agents reconnect."""


# -- what people ask for ---------------------------------------------------------------------------------------------


def start(state: State, nodes: Sequence[NodeFact]) -> Decision:
    """Begin a proposed rollout. Raises `Conflict` when there is no node to be the canary, or nothing to go back to."""
    if state.phase is not RolloutPhase.PROPOSED:
        raise Conflict(f"a rollout that is {state.phase.value} cannot be started", field="phase")
    spec = state.spec
    if spec.emergency:
        told = tuple(fact.node for fact in nodes if fact.connected)
        everybody = tuple(fact.node for fact in nodes)
        return Decision(
            RolloutPhase.PROMOTING,
            f"emergency: revision {spec.revision} goes to the whole pool unjudged: {spec.reason}",
            verdict=Verdict.UNJUDGED,
            actions=(SetPoolRevision(spec.revision), ClearOverrides(everybody)),
            told_nodes=told,
        )
    if state.previous_revision is None:
        raise Conflict(
            f"pool: {spec.pool!r} has no revision in production to go back to; wait until its nodes have reported what "
            "they run, or use an emergency rollout",
            field="pool",
        )
    fit = [fact.node for fact in nodes if fact.connected and fact.healthy]
    if not fit:
        raise Conflict(f"pool: {spec.pool!r} has no connected, healthy serving node to be the canary", field="pool")
    canary = tuple(fit[: wave_size(spec.canary_share, len(nodes))])
    return Decision(
        RolloutPhase.CANARY,
        f"revision {spec.revision} is being given to {_names(canary)}",
        actions=(SetOverride(canary, spec.revision),),
        canary_nodes=canary,
        told_nodes=canary,
    )


def cancel(state: State) -> Decision | None:
    """Stop a rollout: before it began it is cancelled, under way it is rolled back, None when it already goes back.

    Raises `Conflict` when it has ended.
    """
    if state.phase is RolloutPhase.PROPOSED:
        return Decision(RolloutPhase.CANCELLED, "cancelled before it began")
    if state.phase is RolloutPhase.ROLLING_BACK:
        return None
    if state.phase in ENDED:
        raise Conflict(f"a rollout that is {state.phase.value} cannot be cancelled", field="phase")
    return _roll_back(state, "cancelled while under way", verdict=state.verdict)


def wave_size(share: float, nodes: int) -> int:
    """How many nodes of a pool are given a new revision at a time, at least one."""
    return max(1, math.floor(share * nodes + 1e-9))


# -- what follows by itself ------------------------------------------------------------------------------------------


def advance(state: State, facts: Facts, now: datetime) -> Decision | None:
    """What is to be done now; None when there is nothing but to wait."""
    match state.phase:
        case RolloutPhase.CANARY:
            return _canary(state, facts, now)
        case RolloutPhase.JUDGING:
            return _judging_wave(state, facts, now) if state.is_wave else _judging(state, facts, now)
        case RolloutPhase.PROMOTING:
            return _promoting(state, facts, now)
        case RolloutPhase.ROLLING_BACK:
            return _rolling_back(state, facts, now)
    return None


def _canary(state: State, facts: Facts, now: datetime) -> Decision | None:
    failed = _failed(_facts_of(state.canary_nodes, facts))
    if failed is not None:
        return _roll_back(state, failed)
    waiting = _not_running_new(state.canary_nodes, facts)
    if waiting:
        if _step_s(state, now) < state.apply_timeout_s:
            return None
        return _roll_back(state, _late(waiting, state))
    return Decision(
        RolloutPhase.JUDGING,
        f"{_names(state.canary_nodes)} confirmed to run revision {state.spec.revision}; judging on live traffic",
        canary_nodes=state.canary_nodes,
        told_nodes=state.told_nodes,
    )


def _judging(state: State, facts: Facts, now: datetime) -> Decision | None:
    canary = _facts_of(state.canary_nodes, facts)
    broken = _failed(canary) or _broken(state.canary_nodes, canary)
    if broken is not None:
        return _roll_back(state, broken, verdict=Verdict.INCONCLUSIVE)
    spec = state.spec
    if facts.judged is Verdict.WORSE:
        why = "the canary is worse than the control"
        if spec.takes_back is not None:
            why += f": revision {spec.takes_back} is not what made pool {spec.pool} slow"
        return _roll_back(state, why, verdict=Verdict.WORSE)
    judged_s = _step_s(state, now)
    if judged_s >= state.spec.min_judge_s and facts.judged in (Verdict.BETTER, Verdict.NOT_WORSE):
        return _next_wave(state, facts, facts.judged)
    longest_s = spec.longest_judge_s if facts.harmless and facts.decides else spec.max_judge_s
    if judged_s >= max(longest_s, spec.min_judge_s):
        why = f"inconclusive: not enough evidence within {judged_s:.0f} s"
        if spec.takes_back is not None:
            why += (
                f"; revision {spec.takes_back} was not taken back, a person has to decide: an emergency rollout of "
                f"revision {spec.revision} takes it back unjudged"
            )
        return _roll_back(state, why, verdict=Verdict.INCONCLUSIVE)
    return None


def _judging_wave(state: State, facts: Facts, now: datetime) -> Decision | None:
    """Of nodes that were told after the canary. A node that has left the fleet does not hold up the others."""
    told = _facts_of(state.told_nodes, facts)
    failed = _failed(told)
    if failed is not None:
        return _roll_back(state, f"promotion failed: {failed}", verdict=state.verdict)
    lost = tuple(fact.node for fact in told if fact.lost_s >= state.apply_timeout_s)
    if lost:
        return _roll_back(state, f"promotion failed: {_late(lost, state)}", verdict=state.verdict)
    spec, ran = state.spec, f"with revision {state.spec.revision} on {len(told)} of {len(facts.nodes)} nodes"
    if facts.judged is Verdict.WORSE:
        against = "the rest" if len(told) < len(facts.nodes) else "the time before"
        return _roll_back(state, f"{ran} pool {spec.pool} is worse than {against}", verdict=Verdict.WORSE)
    judged_s = _step_s(state, now)
    if judged_s < spec.min_judge_s:
        return None
    assert state.verdict is not None  # Waves follow a good verdict only.
    good = facts.judged in (Verdict.BETTER, Verdict.NOT_WORSE) or not facts.compares
    if facts.harmless and (good or judged_s >= min(spec.wave_judge_s, spec.max_judge_s)):
        return _next_wave(state, facts, state.verdict)
    if judged_s >= max(spec.max_judge_s, spec.min_judge_s):
        why = f"inconclusive: {ran} something leans to harm, and {judged_s:.0f} s have not decided it"
        return _roll_back(state, why, verdict=Verdict.INCONCLUSIVE)
    return None


def _next_wave(state: State, facts: Facts, verdict: Verdict) -> Decision:
    """Tell the next nodes, or end when there is none left."""
    revision = state.spec.revision
    rest = tuple(fact.node for fact in facts.nodes if fact.connected and fact.node not in state.told_nodes)
    if state.spec.emergency:
        rest = ()  # Everybody was told at once, by the pool's revision.
    if not rest and state.phase is RolloutPhase.JUDGING and not state.is_wave:
        return Decision(
            RolloutPhase.PROMOTING,
            f"revision {revision} ({verdict.value}) already runs on every node of pool {state.spec.pool}",
            verdict=verdict,
            canary_nodes=state.canary_nodes,
            told_nodes=state.told_nodes,
        )
    if not rest:
        absent = tuple(fact.node for fact in facts.nodes if not fact.connected)
        later = f"; {_names(absent)} will be given it on coming back" if absent else ""
        return Decision(
            RolloutPhase.PROMOTED,
            f"pool {state.spec.pool} runs revision {revision}{later}",
            verdict=verdict,
            actions=(SetPoolRevision(revision), ClearOverrides(tuple(fact.node for fact in facts.nodes))),
            canary_nodes=state.canary_nodes,
            told_nodes=state.told_nodes,
        )
    wave = rest[: wave_size(state.spec.canary_share, len(facts.nodes))]
    return Decision(
        RolloutPhase.PROMOTING,
        f"revision {revision} ({verdict.value}) is being given to {_names(wave)}",
        verdict=verdict,
        actions=(SetOverride(wave, revision),),
        canary_nodes=state.canary_nodes,
        told_nodes=state.told_nodes + wave,
    )


def _promoting(state: State, facts: Facts, now: datetime) -> Decision | None:
    told = _facts_of(state.told_nodes, facts)
    failed = _failed(told)
    if failed is not None:
        return _roll_back(state, f"promotion failed: {failed}", verdict=state.verdict)
    # A node that has been removed from the fleet does not hold up the others.
    waiting = _not_running_new(tuple(fact.node for fact in told), facts)
    if waiting:
        if _step_s(state, now) < state.apply_timeout_s:
            return None
        return _roll_back(state, f"promotion failed: {_late(waiting, state)}", verdict=state.verdict)
    assert state.verdict is not None  # PROMOTING is entered with a verdict only.
    if state.spec.emergency or not state.is_wave or not _is_held_against_something(state, facts):
        return _next_wave(state, facts, state.verdict)
    return Decision(
        RolloutPhase.JUDGING,
        f"{len(told)} of {len(facts.nodes)} nodes run revision {state.spec.revision}; judging them on live traffic",
        verdict=state.verdict,
        canary_nodes=state.canary_nodes,
        told_nodes=state.told_nodes,
    )


def _is_held_against_something(state: State, facts: Facts) -> bool:
    """The last wave of a take-back has nothing beside it, and behind it only the time that it has ended."""
    return state.spec.takes_back is None or any(fact.node not in state.told_nodes for fact in facts.nodes)


def _rolling_back(state: State, facts: Facts, now: datetime) -> Decision | None:
    told = _facts_of(state.told_nodes, facts)
    waiting = tuple(fact.node for fact in told if not (fact.connected and fact.healthy and fact.runs_previous))
    if state.previous_revision is None:
        return _end(
            state,
            RolloutPhase.FAILED,
            f"there was no revision before {state.spec.revision} to go back to: a person has to look",
        )
    if not waiting:
        why, going_back, _ = state.message.partition(GOING_BACK)
        message = f"pool {state.spec.pool} runs revision {state.previous_revision} again"
        message += f": {why}" if going_back else ""
        return _end(state, RolloutPhase.ROLLED_BACK, message)
    if _step_s(state, now) < state.apply_timeout_s:
        return None
    return _end(
        state,
        RolloutPhase.FAILED,
        f"{_names(waiting)} could not be confirmed to run revision {state.previous_revision} again within "
        f"{state.apply_timeout_s:.0f} s: a person has to look",
    )


def _end(state: State, phase: RolloutPhase, message: str) -> Decision:
    return Decision(phase, message, verdict=state.verdict, canary_nodes=state.canary_nodes, told_nodes=state.told_nodes)


def _roll_back(state: State, why: str, *, verdict: Verdict | None = None) -> Decision:
    """Put the whole previous revision back, whatever has been done so far."""
    actions: list[Action] = []
    if state.previous_revision is not None:
        actions.append(SetPoolRevision(state.previous_revision))
    actions.append(ClearOverrides(state.told_nodes))
    return Decision(
        RolloutPhase.ROLLING_BACK,
        f"{why}{GOING_BACK}{state.previous_revision}",
        verdict=verdict,
        actions=tuple(actions),
        canary_nodes=state.canary_nodes,
        told_nodes=state.told_nodes,
    )


# -- reading the facts -----------------------------------------------------------------------------------------------


def _facts_of(names: tuple[str, ...], facts: Facts) -> tuple[NodeFact, ...]:
    return tuple(fact for fact in facts.nodes if fact.node in names)


def _not_running_new(names: tuple[str, ...], facts: Facts) -> tuple[str, ...]:
    running = {fact.node for fact in facts.nodes if fact.connected and fact.healthy and fact.runs_new}
    return tuple(name for name in names if name not in running)


def _failed(facts: tuple[NodeFact, ...]) -> str | None:
    for fact in facts:
        if fact.error is not None:
            left = fact.error.startswith(LEASE_ENDED)
            return f"{fact.node} {'left it' if left else 'could not apply it'}: {fact.error}"
    return None


def _broken(names: tuple[str, ...], facts: tuple[NodeFact, ...]) -> str | None:
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


def _step_s(state: State, now: datetime) -> float:
    return (now - (state.step_since or now)).total_seconds() - state.away_s


def _late(waiting: tuple[str, ...], state: State) -> str:
    spec = state.spec
    return f"{_names(waiting)} not confirmed to run revision {spec.revision} within {state.apply_timeout_s:.0f} s"


def _names(nodes: tuple[str, ...]) -> str:
    return ", ".join(nodes) if len(nodes) <= 5 else f"{', '.join(nodes[:4])} and {len(nodes) - 4} more"
