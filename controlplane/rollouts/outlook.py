"""What a rollout is about to do, in words (pure): its waves, what comes next, and the longest time it takes."""

from collections.abc import Sequence

from controlplane.contract.bodies.rollouts import ENDED, RolloutCreate, RolloutPhase, Wave
from controlplane.contract.changes.hooks import HookCall, HookState
from controlplane.contract.duration_text import duration_text
from controlplane.rollouts.decision import State
from controlplane.rollouts.hooks.hook_gate import waits_text
from controlplane.rollouts.interventions import PAUSED_BY
from controlplane.rollouts.stages import NO_GROUP, Groups, ends_group, next_size, pauses_after, sizes, soak_after
from controlplane.rollouts.time_bounds import longest_s, waits_for_people


def waves_of(spec: RolloutCreate, groups: Groups, order: Sequence[str] = ()) -> list[Wave]:
    """Every wave for a pool of these nodes; `order`: their names in the order in which they are told."""
    found: list[Wave] = []
    nodes = groups.nodes
    for size in sizes(spec, groups) if nodes else []:
        before = found[-1].nodes if found else 0
        between = not spec.emergency and ends_group(size, groups)
        pauses = (not spec.emergency and pauses_after(spec, size, nodes)) or (spec.wave_pause and between)
        soak_s = 0.0 if spec.emergency else soak_after(spec, between=between)
        group = NO_GROUP if spec.emergency else groups.of(size)
        says = f"{size} of {nodes} nodes"
        if spec.wave_by and not spec.emergency:
            says += f" ({spec.wave_by} {group})" if group else f" (without a label {spec.wave_by})"
        if spec.emergency:
            says += " at once, unjudged"
        else:
            says += ", then judged" if before else " as the canary, then judged"
            says += f"; watched on for {duration_text(soak_s)}" if soak_s else ""
            says += "; then a person resumes" if pauses else ""
        named = list(order[before:size])
        found.append(Wave(nodes=size, of=nodes, named=named, group=group, pauses=pauses, soak_s=soak_s, says=says))
    return found


def sentences(spec: RolloutCreate, waves: Sequence[Wave]) -> list[str]:
    """A forecast in words."""
    said = [f"{place}. {wave.says}" for place, wave in enumerate(waves, 1)]
    said.append(f"it is promoted or goes back within {duration_text(longest_s(spec, waves))} of its start")
    if waves and waits_for_people(spec, waves):
        said.append("what waits for a person waits as long as they take, watched: harm takes it back")
    return said


def held_by(state: State, asked: Sequence[HookCall]) -> str | None:
    """Why it waits for somebody; None where it does not, or a person has paused it. asked: who has not agreed."""
    if state.phase is RolloutPhase.PAUSED:
        return None if state.message.startswith(PAUSED_BY) else state.message
    whys = [waits_text(call.name, call.state, call.reason) for call in asked if call.state is not HookState.WAITING]
    return "; ".join(whys) or None


def next_of(state: State, groups: Groups, asked: Sequence[str] = ()) -> str:
    """What comes next; empty for one that has ended. groups: serving nodes of the pool, none before it has begun.
    asked: hooks that have not agreed."""
    if asked:
        return f"it goes on once {' and '.join(asked)} agree{'' if len(asked) > 1 else 's'}; " + next_of(state, groups)
    spec, told = state.spec, len(state.told_nodes)
    onward = "the pool's revision changes" if told >= groups.nodes else _more(next_size(spec, told, groups) - told)
    undecided = (
        "undecided, it is held for a person"
        if spec.holds and not state.is_wave
        else "undecided, it goes back"
        if not state.is_wave
        else "harm takes all of them back"
    )
    match state.phase:
        case RolloutPhase.PROPOSED:
            return "somebody starts it"
        case RolloutPhase.AWAITING_APPROVAL:
            return "another than who proposed it approves, or cancels it"
        case RolloutPhase.VALIDATING:
            return "the canary is told; what is found against it ends the rollout"
        case RolloutPhase.CANARY:
            return "the canary is judged on live traffic"
        case RolloutPhase.PROMOTING if spec.emergency:
            return "it has ended once every connected node runs it"
        case RolloutPhase.PROMOTING:
            return "these nodes are judged on live traffic"
        case RolloutPhase.JUDGING:
            well = "judged better" if spec.only_better and not state.is_wave else "judged well"
            return f"{well}, {onward}; {undecided}"
        case RolloutPhase.SOAKING:
            return f"{onward}; harm takes all of them back"
        case RolloutPhase.PAUSED:
            return "a person resumes or aborts it; harm takes it back by itself"
        case RolloutPhase.ROLLING_BACK:
            return f"it has ended once every node that was told runs revision {state.previous_revision} again"
    assert state.phase in ENDED
    return ""


def _more(nodes: int) -> str:
    return "one more node is told" if nodes == 1 else f"{nodes} more nodes are told"
