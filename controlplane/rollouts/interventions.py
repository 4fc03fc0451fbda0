"""What people may ask of a rollout under way (pure): cancel, abort, pause, resume. None: it is so already.

Each raises `Conflict` where the phase does not allow it, and says which would.
"""

from controlplane.contract.bodies.rollouts import ENDED, NOT_BEGUN, RolloutPhase, Verdict
from controlplane.contract.errors import Conflict
from controlplane.rollouts.decision import Decision, State
from controlplane.rollouts.machine import roll_back

PAUSABLE = frozenset({RolloutPhase.CANARY, RolloutPhase.JUDGING, RolloutPhase.SOAKING, RolloutPhase.PROMOTING})
PAUSED_BY = "paused by "
"""How the message of what a person has paused begins."""
UNTOUCHED = NOT_BEGUN | {RolloutPhase.VALIDATING}
"""No node has been told."""


def cancel(state: State) -> Decision | None:
    """Stop a rollout: before it began it is cancelled, under way it is rolled back, None when it already goes back."""
    if state.phase in UNTOUCHED:
        return Decision(RolloutPhase.CANCELLED, "cancelled before it began")
    if state.phase is RolloutPhase.ROLLING_BACK:
        return None
    if state.phase in ENDED:
        raise _refused(state, "cancelled", "one that was promoted is taken back by revert")
    return roll_back(state, "cancelled while under way", verdict=state.verdict)


def abort(state: State) -> Decision | None:
    """Take back what is under way."""
    if state.phase in UNTOUCHED:
        raise _refused(state, "aborted", "nothing has begun, so cancel it")
    if state.phase is RolloutPhase.ROLLING_BACK:
        return None
    if state.phase in ENDED:
        raise _refused(state, "aborted", "one that was promoted is taken back by revert")
    return roll_back(state, "aborted", verdict=state.verdict)


def pause(state: State, actor: str, why: str = "") -> Decision | None:
    """Stay as it is. What was told is watched on, and taken back should harm show."""
    if state.phase is RolloutPhase.PAUSED:
        return None
    if state.spec.emergency or state.phase not in PAUSABLE:
        hint = "an emergency is told to all at once" if state.spec.emergency else "only what is under way can be"
        raise _refused(state, "paused", hint)
    return Decision(
        RolloutPhase.PAUSED,
        f"{PAUSED_BY}{actor} while {state.phase.value}{': ' if why else ''}{why}",
        verdict=state.verdict,
        canary_nodes=state.canary_nodes,
        told_nodes=state.told_nodes,
        resumes=state.phase,
    )


def resume(state: State, actor: str) -> Decision:
    """Go on where it was paused, with the time of that phase anew. What was undecided is judged on."""
    if state.phase is not RolloutPhase.PAUSED:
        raise _refused(state, "resumed", "only what is paused can be")
    assert state.resumes is not None
    return Decision(
        state.resumes,
        f"resumed by {actor}: {state.resumes.value.replace('_', ' ')} again",
        verdict=None if state.verdict is Verdict.INCONCLUSIVE else state.verdict,
        canary_nodes=state.canary_nodes,
        told_nodes=state.told_nodes,
    )


def _refused(state: State, what: str, hint: str) -> Conflict:
    phase = state.phase.value.replace("_", " ")
    return Conflict(f"a rollout that is {phase} cannot be {what}: {hint}", field="phase", phase=state.phase.value)
