"""Whether a rollout may go on, by what its hooks have answered (pure)."""

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.changes.hooks import HookKind, HookState, OnSilence
from controlplane.rollouts.decision import Gate, State


@dataclass(frozen=True)
class Asked:
    """One hook that is to confirm, and how its call for the present step stands; None: it was not asked yet."""

    hook_id: int
    name: str
    on_silence: OnSilence
    state: HookState | None = None
    reason: str = ""


def confirming(state: State) -> HookKind | None:
    """The hooks that this rollout waits for where it is; None: for none.

    Nothing stands in the way back, nor of an emergency: neither is confirmed by anybody.
    """
    spec = state.spec
    if spec.emergency or spec.takes_back is not None:
        return None
    if state.phase is RolloutPhase.VALIDATING:
        return HookKind.CONFIRM_START
    if state.phase in (RolloutPhase.JUDGING, RolloutPhase.SOAKING) and not state.is_wave:
        return HookKind.CONFIRM_PROMOTION
    return None


def gate_of(hooks: Iterable[Asked]) -> Gate:
    """A hook that halts outweighs one that is asked still; one that is silent counts as its policy says."""
    found = list(hooks)
    unasked = tuple(one.hook_id for one in found if one.state is None)
    for one in found:
        if one.state is HookState.SILENT and one.on_silence is OnSilence.ROLL_BACK:
            return Gate(back=f"hook {one.name} has not answered: {one.reason}")
    halted = [one for one in found if one.state is HookState.HALT]
    silent = [one for one in found if one.state is HookState.SILENT and one.on_silence is OnSilence.HOLD]
    asked = [one for one in found if one.state in (None, HookState.WAITING)]
    for one in (*halted, *silent, *asked):
        assert one.state is not HookState.GO
        return Gate(waits=waits_text(one.name, one.state, one.reason), unasked=unasked)
    return Gate()


def waits_text(name: str, state: HookState | None, reason: str) -> str:
    """Why it waits for this hook."""
    match state:
        case HookState.HALT:
            return f"hook {name} wants it to wait: {reason}"
        case HookState.SILENT:
            return f"hook {name} does not answer: {reason}"
    return f"hook {name} is asked"
