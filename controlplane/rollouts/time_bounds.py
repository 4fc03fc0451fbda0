"""How long a rollout takes at most (pure): the phase it is in, and all of it from its start.

What waits for a person has no bound; a freeze window, and time in which no controller was there, come on top.
"""

from collections.abc import Sequence

from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase, Wave
from controlplane.rollouts.decision import State
from controlplane.rollouts.patience import LIVE_TIMEOUT_S
from controlplane.rollouts.stages import Groups, ends_group, soak_after

_APPLYING = frozenset({RolloutPhase.VALIDATING, RolloutPhase.CANARY, RolloutPhase.PROMOTING, RolloutPhase.ROLLING_BACK})


def phase_bound_s(state: State, groups: Groups) -> float | None:
    """Seconds that the phase, or this wave of it, lasts at most; None where a person is waited for, or it has ended.
    groups: of the pool's nodes."""
    if state.phase in _APPLYING:
        return state.apply_timeout_s
    if state.phase is RolloutPhase.JUDGING:
        return _judged_s(state.spec, is_wave=state.is_wave)
    if state.phase is RolloutPhase.SOAKING:
        return soak_after(state.spec, between=ends_group(len(state.told_nodes), groups))
    return None


def longest_s(spec: RolloutCreate, waves: Sequence[Wave]) -> float:
    """Seconds from the start to the promotion, or to the decision to go back, for these waves."""
    applied_s = LIVE_TIMEOUT_S if spec.apply_timeout_s is None else spec.apply_timeout_s
    if spec.emergency:
        return applied_s
    return sum(applied_s + _judged_s(spec, is_wave=place > 0) + wave.soak_s for place, wave in enumerate(waves))


def waits_for_people(spec: RolloutCreate, waves: Sequence[Wave]) -> bool:
    """Whether a wave asks for a person, or an undecided canary would."""
    return not spec.emergency and (spec.holds or any(wave.pauses for wave in waves))


def _judged_s(spec: RolloutCreate, *, is_wave: bool) -> float:
    return max(spec.max_judge_s if is_wave else spec.longest_judge_s, spec.min_judge_s)
