"""How long a rollout takes at most (pure): the phase it is in, and all of it from its start.

What waits for a person has no bound; a freeze window, and time in which no controller was there, come on top.
"""

from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase
from controlplane.rollouts.decision import State
from controlplane.rollouts.patience import LIVE_TIMEOUT_S
from controlplane.rollouts.stages import pauses_after

_APPLYING = frozenset({RolloutPhase.VALIDATING, RolloutPhase.CANARY, RolloutPhase.PROMOTING, RolloutPhase.ROLLING_BACK})


def phase_bound_s(state: State) -> float | None:
    """Seconds that the phase, or this wave of it, lasts at most; None where a person is waited for, or it has ended."""
    if state.phase in _APPLYING:
        return state.apply_timeout_s
    if state.phase is RolloutPhase.JUDGING:
        return _judged_s(state.spec, is_wave=state.is_wave)
    return state.spec.soak_s if state.phase is RolloutPhase.SOAKING else None


def longest_s(spec: RolloutCreate, sizes: list[int]) -> float:
    """Seconds from the start to the promotion, or to the decision to go back, for waves of these sizes."""
    applied_s = LIVE_TIMEOUT_S if spec.apply_timeout_s is None else spec.apply_timeout_s
    if spec.emergency:
        return applied_s
    judged_s = sum(_judged_s(spec, is_wave=place > 0) for place in range(len(sizes)))
    return len(sizes) * (applied_s + spec.soak_s) + judged_s


def waits_for_people(spec: RolloutCreate, sizes: list[int]) -> bool:
    """Whether a stage asks for a person, or an undecided canary would."""
    return not spec.emergency and (spec.holds or any(pauses_after(spec, size, sizes[-1]) for size in sizes))


def _judged_s(spec: RolloutCreate, *, is_wave: bool) -> float:
    return max(spec.max_judge_s if is_wave else spec.longest_judge_s, spec.min_judge_s)
