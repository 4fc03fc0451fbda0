"""How a rollout proceeds (pure): `advance(state, facts, now) -> Decision | None`. A controller carries it out.

Guarantees, for every sequence of facts:
- a phase follows another only where `TRANSITIONS` says so; every phase but those that wait for a person ends within its
  time-out, SOAKING and VALIDATING once the freeze window or the pool's closed hours are over and the hooks that confirm
  let it go on;
- while it is paused nothing moves but a rollback, and a paused rollout never promotes: it goes on where it was;
- the pool's production revision changes only when every connected serving node already runs the new one (emergencies
  apart), so whatever stops half-way leaves the previous revision as the pool's own;
- a rollback always names the whole previous revision and takes back every node that was told otherwise;
- nothing is promoted on WORSE or INCONCLUSIVE, nor on NOT_WORSE where only what is better shall stay: a harmless canary
  that stays undecided is held for a person, or taken back where its policy says so;
- no wave mixes nodes of two groups, nor begins another group while a connected node of those begun is not told, nor
  before those begun were watched on for `wave_soak_s`;
- no stage begins in a freeze window or outside the pool's hours, and none tells more than `stages.py` says;
- the next nodes are told only when those before them were judged and have soaked: the canary beside the rest, then each
  wave, all nodes that run the revision beside the rest, and the last beside the time before. Harm takes all back.

A node counts as running a revision when the engine's configuration, read back, equals it (`facts.py`), never because
an agent has acknowledged it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from controlplane.contract.bodies.rollouts import ENDED, NOT_BEGUN, UNDECIDED, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.errors import Conflict
from controlplane.contract.metrics import WINDOW_S
from controlplane.rollouts.decision import (
    OPEN,
    Action,
    ClearOverrides,
    Decision,
    Facts,
    NodeFact,
    SetOverride,
    SetPoolRevision,
    State,
)
from controlplane.rollouts.node_readings import broken, facts_of, failed_of, late, names_of, not_running_new, step_s
from controlplane.rollouts.stages import ordered, pauses_after, size_after, soak_after

LAG_S = 10.0
"""How far behind now windows are judged, so that late reports count."""
QUICK_LAG_S = 5.0
"""The same for a take-back: agents send a window within a second or two of its end. A later report is not judged."""
SETTLE_S = 5.0
"""Skipped after the canary has confirmed: the requests of this time began under the old configuration."""
SEEN_S, SEEN_QUICKLY_S = SETTLE_S + LAG_S + WINDOW_S, SETTLE_S + QUICK_LAG_S + WINDOW_S
"""Until the first window of a step has been judged at all, and the same for a take-back. Nothing is passed unseen,
however little is asked."""
_BEGUN = frozenset({RolloutPhase.CANARY, RolloutPhase.PROMOTING})
_BACK = frozenset({RolloutPhase.PAUSED, RolloutPhase.ROLLING_BACK})
_ON = frozenset({RolloutPhase.PROMOTING, RolloutPhase.PROMOTED})

TRANSITIONS: dict[RolloutPhase, frozenset[RolloutPhase]] = {
    **{phase: _BEGUN | {RolloutPhase.VALIDATING, RolloutPhase.CANCELLED} for phase in NOT_BEGUN},
    RolloutPhase.VALIDATING: frozenset({RolloutPhase.CANARY, RolloutPhase.FAILED, RolloutPhase.CANCELLED}),
    RolloutPhase.CANARY: _BACK | {RolloutPhase.JUDGING},
    RolloutPhase.JUDGING: _BACK | _ON | {RolloutPhase.SOAKING},
    RolloutPhase.SOAKING: _BACK | _ON,
    RolloutPhase.PROMOTING: _BACK | _ON | {RolloutPhase.JUDGING, RolloutPhase.SOAKING},
    RolloutPhase.PAUSED: frozenset(
        {RolloutPhase.CANARY, RolloutPhase.JUDGING, RolloutPhase.SOAKING, RolloutPhase.PROMOTING}
    )
    | {RolloutPhase.ROLLING_BACK},
    RolloutPhase.ROLLING_BACK: frozenset({RolloutPhase.ROLLED_BACK, RolloutPhase.FAILED}),
    **{phase: frozenset[RolloutPhase]() for phase in ENDED},
}
"""What has not begun goes to PROMOTING in an emergency only. After the canary PROMOTING and JUDGING alternate, wave by
wave, with SOAKING between where the rollout has it, or no stage may begin; JUDGING and SOAKING go to PROMOTED from the
last, PROMOTING where nothing was told that has not been judged, and again to PROMOTING where a node has come since.
PAUSED goes back to where it was."""

GOING_BACK = "; going back to revision "
HELD = "held for a person to decide: resume to judge on, or abort to go back"
PAUSED_BY_STAGE = "its stage waits for a person: resume to go on"
PAUSED_BY_WAVE = "a person is waited for before the next nodes: resume to go on"


def start(state: State, nodes: Sequence[NodeFact], *, validates: bool = False) -> Decision:
    """Begin a proposed rollout, with its validation where `validates`. Raises `Conflict` when there is no node to be
    the canary, or nothing to go back to."""
    if state.phase not in NOT_BEGUN:
        raise Conflict(f"a rollout that is {state.phase.value} cannot be started", field="phase")
    return _begin(state, nodes, validates=validates)


def _begin(state: State, nodes: Sequence[NodeFact], *, validates: bool = False) -> Decision:
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
    canary = canary_of(spec, nodes)
    if validates:
        return Decision(
            RolloutPhase.VALIDATING, f"revision {spec.revision} is held against each node of pool {spec.pool}"
        )
    return Decision(
        RolloutPhase.CANARY,
        f"revision {spec.revision} is being given to {names_of(canary)}",
        actions=(SetOverride(canary, spec.revision),),
        canary_nodes=canary,
        told_nodes=canary,
    )


def canary_of(spec: RolloutCreate, nodes: Sequence[NodeFact]) -> tuple[str, ...]:
    """Of nodes as they are drawn: those of the first group that has some. Raises `Conflict` where there are none."""
    fit = [fact for fact in nodes if fact.connected and fact.healthy]
    if not fit:
        raise Conflict(f"pool: {spec.pool!r} has no connected, healthy serving node to be the canary", field="pool")
    chosen = [fact for fact in fit if fact.may_be_canary]
    if not chosen:
        raise Conflict(
            f"canary_selector: of the {len(fit)} connected, healthy serving nodes of pool {spec.pool!r} none matches "
            f"{spec.canary_selector}; wait for one, or choose otherwise",
            field="canary_selector",
        )
    first = ordered((fact.group for fact in chosen), (), spec.wave_order)[0]
    return tuple(fact.node for fact in chosen if fact.group == first)[: size_after(spec, 0, len(nodes))]


# -- what follows by itself ------------------------------------------------------------------------------------------


def advance(state: State, facts: Facts, now: datetime) -> Decision | None:
    """What is to be done now; None when there is nothing but to wait."""
    match state.phase:
        case RolloutPhase.VALIDATING:
            return _validating(state, facts, now)
        case RolloutPhase.CANARY:
            return _canary(state, facts, now)
        case RolloutPhase.JUDGING:
            return _judging_wave(state, facts, now) if state.is_wave else _judging(state, facts, now)
        case RolloutPhase.SOAKING:
            return _soaking(state, facts, now)
        case RolloutPhase.PROMOTING:
            return _promoting(state, facts, now)
        case RolloutPhase.PAUSED:
            return _paused(state, facts)
        case RolloutPhase.ROLLING_BACK:
            return _rolling_back(state, facts, now)
    return None


def asks(state: State, facts: Facts, now: datetime) -> bool:
    """Whether hooks are to be asked now: nothing but them holds the rollout where it waits for them."""
    if not facts.gate.unasked or state.phase not in (RolloutPhase.VALIDATING, RolloutPhase.SOAKING):
        return False
    onward = advance(state, replace(facts, gate=OPEN), now)
    return onward is not None and onward.phase in (RolloutPhase.CANARY, *_ON)


def _validating(state: State, facts: Facts, now: datetime) -> Decision | None:
    spec = state.spec
    refusing = [one for one in facts.findings if one.refuses]
    if refusing:
        more = f"; and {len(refusing) - 1} more" if len(refusing) > 1 else ""
        why = f"revision {spec.revision} cannot run in pool {spec.pool}: {refusing[0].sentence}{more}"
        return _not_begun(why, facts)
    if facts.unheard:
        if step_s(state, now) < state.apply_timeout_s:
            return None
        why = (
            f"{names_of(facts.unheard)}: effective: what it runs was not heard within {state.apply_timeout_s:.0f} s, "
            f"so nobody knows whether it can run revision {spec.revision}; see what its agent and its engine say"
        )
        return _not_begun(why, facts)
    if facts.closed is not None:
        return None
    if facts.gate.back is not None:
        return _not_begun(facts.gate.back, facts)
    if facts.gate.waits is not None:
        return None
    try:
        return replace(_begin(state, facts.nodes), findings=facts.findings)
    except Conflict as error:  # Its nodes have left since.
        return _not_begun(error.message, facts)


def _not_begun(why: str, facts: Facts) -> Decision:
    return Decision(RolloutPhase.FAILED, f"{why}: nothing was changed", findings=facts.findings)


def _canary(state: State, facts: Facts, now: datetime) -> Decision | None:
    failed = failed_of(facts_of(state.canary_nodes, facts))
    if failed is not None:
        return roll_back(state, failed)
    waiting = not_running_new(state.canary_nodes, facts)
    if waiting:
        if step_s(state, now) < state.apply_timeout_s:
            return None
        return roll_back(state, late(waiting, state))
    return Decision(
        RolloutPhase.JUDGING,
        f"{names_of(state.canary_nodes)} confirmed to run revision {state.spec.revision}; judging on live traffic",
        canary_nodes=state.canary_nodes,
        told_nodes=state.told_nodes,
    )


def _judging(state: State, facts: Facts, now: datetime) -> Decision | None:
    canary = facts_of(state.canary_nodes, facts)
    trouble = failed_of(canary) or broken(state.canary_nodes, canary)
    if trouble is not None:
        return roll_back(state, trouble, verdict=Verdict.INCONCLUSIVE)
    spec = state.spec
    if facts.judged is Verdict.WORSE:
        why = "the canary is worse than the control"
        if spec.takes_back is not None:
            why += f": revision {spec.takes_back} is not what made pool {spec.pool} slow"
        return roll_back(state, why, verdict=Verdict.WORSE)
    judged_s = step_s(state, now)
    is_equal = facts.judged is Verdict.NOT_WORSE and spec.only_better  # More is waited for.
    if judged_s >= spec.min_judge_s and facts.judged in (Verdict.BETTER, Verdict.NOT_WORSE) and not is_equal:
        return _judged_well(state, facts, facts.judged)
    longest_s = spec.longest_judge_s if facts.harmless and facts.decides and not is_equal else spec.max_judge_s
    if judged_s >= max(longest_s, spec.min_judge_s):
        if is_equal:
            why = f"not worse, but not shown to be better within {judged_s:.0f} s"
            return roll_back(state, why, verdict=Verdict.NOT_WORSE)
        why = f"{UNDECIDED} within {judged_s:.0f} s"
        if facts.harmless and spec.holds:
            return _pause(
                state, f"{why}, and no harm: {HELD}", resumes=RolloutPhase.JUDGING, verdict=Verdict.INCONCLUSIVE
            )
        if spec.takes_back is not None:
            why += (
                f"; revision {spec.takes_back} was not taken back, a person has to decide: an emergency rollout of "
                f"revision {spec.revision} takes it back unjudged"
            )
        return roll_back(state, why, verdict=Verdict.INCONCLUSIVE)
    return None


def _judging_wave(state: State, facts: Facts, now: datetime) -> Decision | None:
    """Of nodes that were told after the canary. A node that has left the fleet does not hold up the others."""
    harmed = _harmed(state, facts)
    if harmed is not None:
        return harmed
    spec = state.spec
    judged_s = step_s(state, now)
    if judged_s < max(spec.min_judge_s, SEEN_S if spec.takes_back is None else SEEN_QUICKLY_S):
        return None
    assert state.verdict is not None  # Waves follow a good verdict only.
    good = facts.judged in (Verdict.BETTER, Verdict.NOT_WORSE) or not facts.compares
    if facts.harmless and (good or judged_s >= min(spec.wave_judge_s, spec.max_judge_s)):
        return _judged_well(state, facts, state.verdict)
    if judged_s >= max(spec.max_judge_s, spec.min_judge_s):
        why = f"inconclusive: {_ran(state, facts)} something leans to harm, and {judged_s:.0f} s have not decided it"
        return roll_back(state, why, verdict=Verdict.INCONCLUSIVE)
    return None


def _harmed(state: State, facts: Facts) -> Decision | None:
    """The way back of nodes that were told after the canary, or that soak, where one fails, is lost or harm shows."""
    told = facts_of(state.told_nodes, facts)
    failed = failed_of(told)
    if failed is not None:
        return roll_back(state, f"promotion failed: {failed}", verdict=state.verdict)
    lost = tuple(fact.node for fact in told if fact.lost_s >= state.apply_timeout_s)
    if lost:
        return roll_back(state, f"promotion failed: {late(lost, state)}", verdict=state.verdict)
    return _worse(state, facts)


def _worse(state: State, facts: Facts) -> Decision | None:
    if facts.judged is not Verdict.WORSE:
        return None
    against = "the rest" if len(facts_of(state.told_nodes, facts)) < len(facts.nodes) else "the time before"
    return roll_back(
        state, f"{_ran(state, facts)} pool {state.spec.pool} is worse than {against}", verdict=Verdict.WORSE
    )


def _ran(state: State, facts: Facts) -> str:
    told = facts_of(state.told_nodes, facts)
    return f"with revision {state.spec.revision} on {len(told)} of {len(facts.nodes)} nodes"


def _judged_well(state: State, facts: Facts, verdict: Verdict) -> Decision:
    """A person looks first where the stage, or the end of a group, asks for it, then it soaks, then the next are
    told."""
    told, nodes = len(facts_of(state.told_nodes, facts)), len(facts.nodes)
    between = _ends_group(state, facts)
    by_stage = pauses_after(state.spec, told, nodes)
    if by_stage or (state.spec.wave_pause and between):
        why = f"{told} of {nodes} nodes run revision {state.spec.revision} ({verdict.value})"
        if between and not by_stage:
            why += f", all that there are of this {state.spec.wave_by}"
        why += f"; {PAUSED_BY_STAGE if by_stage else PAUSED_BY_WAVE}"
        return _pause(state, why, resumes=RolloutPhase.SOAKING, verdict=verdict)
    return _onward(state, facts, verdict, soak_s=soak_after(state.spec, between=between))


def _onward(state: State, facts: Facts, verdict: Verdict, *, soak_s: float) -> Decision:
    if soak_s <= 0 and facts.closed is None and facts.gate == OPEN:
        return _next_wave(state, facts, verdict)
    told = len(facts_of(state.told_nodes, facts))
    why = f"{told} of {len(facts.nodes)} nodes run revision {state.spec.revision} ({verdict.value}) and are watched on"
    why += f" for {soak_s:.0f} s" if soak_s > 0 else ""
    why += f"; no stage begins: {facts.closed}" if facts.closed is not None else ""
    why += f"; {facts.gate.waits}" if facts.gate.waits is not None else ""
    return _stay(state, RolloutPhase.SOAKING, why, verdict=verdict)


def _soaking(state: State, facts: Facts, now: datetime) -> Decision | None:
    harmed = _harmed(state, facts)
    if harmed is not None:
        return harmed
    told = tuple(fact.node for fact in facts_of(state.told_nodes, facts))
    soak_s = soak_after(state.spec, between=_ends_group(state, facts))
    if step_s(state, now) < soak_s or facts.closed is not None or not_running_new(told, facts):
        return None  # A node that stays away is lost in time.
    if facts.gate.back is not None:
        return roll_back(state, facts.gate.back, verdict=state.verdict)
    if facts.gate.waits is not None:
        return None
    assert state.verdict is not None  # What soaks was judged well.
    return _next_wave(state, facts, state.verdict)


def _paused(state: State, facts: Facts) -> Decision | None:
    """Nothing but the way back, should a node fail or harm show."""
    failed = failed_of(facts_of(state.told_nodes, facts))
    if failed is not None:
        return roll_back(state, failed, verdict=state.verdict)
    return _worse(state, facts)


def _pause(state: State, why: str, *, resumes: RolloutPhase, verdict: Verdict | None) -> Decision:
    return _stay(state, RolloutPhase.PAUSED, why, verdict=verdict, resumes=resumes)


def _stay(
    state: State, phase: RolloutPhase, why: str, *, verdict: Verdict | None, resumes: RolloutPhase | None = None
) -> Decision:
    """Another phase, with the nodes as they are."""
    return Decision(
        phase, why, verdict=verdict, canary_nodes=state.canary_nodes, told_nodes=state.told_nodes, resumes=resumes
    )


def _next_wave(state: State, facts: Facts, verdict: Verdict) -> Decision:
    """Tell the next nodes, or end when there is none left."""
    revision = state.spec.revision
    rest = () if state.spec.emergency else _next_group(state, facts)  # An emergency tells everybody at once.
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
        later = f"; {names_of(absent)} will be given it on coming back" if absent else ""
        return Decision(
            RolloutPhase.PROMOTED,
            f"pool {state.spec.pool} runs revision {revision}{later}",
            verdict=verdict,
            actions=(SetPoolRevision(revision), ClearOverrides(tuple(fact.node for fact in facts.nodes))),
            canary_nodes=state.canary_nodes,
            told_nodes=state.told_nodes,
        )
    told = len(facts_of(state.told_nodes, facts))
    wave = rest[: max(1, size_after(state.spec, told, len(facts.nodes)) - told)]
    return Decision(
        RolloutPhase.PROMOTING,
        f"revision {revision} ({verdict.value}) is being given to {names_of(wave)}",
        verdict=verdict,
        actions=(SetOverride(wave, revision),),
        canary_nodes=state.canary_nodes,
        told_nodes=state.told_nodes + wave,
    )


def _next_group(state: State, facts: Facts) -> tuple[str, ...]:
    """Connected nodes that were not told, of the group that is done next; none where all were told."""
    told = frozenset(state.told_nodes)
    left = [fact for fact in facts.nodes if fact.connected and fact.node not in told]
    groups = {fact.node: fact.group for fact in facts.nodes}
    begun = [groups[node] for node in state.told_nodes if node in groups]
    order = ordered((fact.group for fact in left), begun, state.spec.wave_order)
    return tuple(fact.node for fact in left if fact.group == order[0])


def _ends_group(state: State, facts: Facts) -> bool:
    """Whether the nodes that are told next are of a group that has not begun."""
    rest = _next_group(state, facts)
    groups = {fact.node: fact.group for fact in facts.nodes}
    return bool(rest) and groups[rest[0]] not in {groups[node] for node in state.told_nodes if node in groups}


def _promoting(state: State, facts: Facts, now: datetime) -> Decision | None:
    told = facts_of(state.told_nodes, facts)
    failed = failed_of(told)
    if failed is not None:
        return roll_back(state, f"promotion failed: {failed}", verdict=state.verdict)
    # A node that has been removed from the fleet does not hold up the others.
    waiting = not_running_new(tuple(fact.node for fact in told), facts)
    if waiting:
        if step_s(state, now) < state.apply_timeout_s:
            return None
        return roll_back(state, f"promotion failed: {late(waiting, state)}", verdict=state.verdict)
    assert state.verdict is not None  # PROMOTING is entered with a verdict only.
    if state.spec.emergency:
        return _next_wave(state, facts, state.verdict)
    if not state.is_wave or not _is_held_against_something(state, facts):
        if _ends_group(state, facts):  # Of nodes that have come since.
            return _judged_well(state, facts, state.verdict)
        return _onward(state, facts, state.verdict, soak_s=0)
    return Decision(
        RolloutPhase.JUDGING,
        f"{len(told)} of {len(facts.nodes)} nodes run revision {state.spec.revision}; judging them on live traffic",
        verdict=state.verdict,
        canary_nodes=state.canary_nodes,
        told_nodes=state.told_nodes,
    )


def _is_held_against_something(state: State, facts: Facts) -> bool:
    """The last wave of a take-back has nothing beside it, and behind it only the time that it has ended."""
    told = frozenset(state.told_nodes)
    return state.spec.takes_back is None or any(fact.node not in told for fact in facts.nodes)


def _rolling_back(state: State, facts: Facts, now: datetime) -> Decision | None:
    told = facts_of(state.told_nodes, facts)
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
    if step_s(state, now) < state.apply_timeout_s:
        return None
    return _end(
        state,
        RolloutPhase.FAILED,
        f"{names_of(waiting)} could not be confirmed to run revision {state.previous_revision} again within "
        f"{state.apply_timeout_s:.0f} s: a person has to look",
    )


def _end(state: State, phase: RolloutPhase, message: str) -> Decision:
    return Decision(phase, message, verdict=state.verdict, canary_nodes=state.canary_nodes, told_nodes=state.told_nodes)


def roll_back(state: State, why: str, *, verdict: Verdict | None = None) -> Decision:
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
