"""Where a rollout is on its way, and what people may do with it there (pure)."""

from dataclasses import dataclass
from enum import StrEnum

from controlplane.contract.bodies.access import IMPLIED, Scope
from controlplane.contract.bodies.rollouts import ENDED, NOT_BEGUN, Rollout, RolloutAction, RolloutPhase


class Place(StrEnum):
    """Of a step, beside where the rollout is."""

    DONE = "done"
    NOW = "now"
    NEXT = "next"


@dataclass(frozen=True)
class Step:
    """One phase of the bar. says: its name in words."""

    says: str
    place: Place


@dataclass(frozen=True)
class Button:
    action: RolloutAction
    says: str


_ON = (RolloutPhase.CANARY, RolloutPhase.JUDGING, RolloutPhase.SOAKING, RolloutPhase.PROMOTING, RolloutPhase.PROMOTED)
_UNDER_WAY = {*_ON[:-1], RolloutPhase.PAUSED}
_UNDONE = ENDED - {RolloutPhase.PROMOTED}

SAYS = {
    RolloutAction.START: "Start",
    RolloutAction.APPROVE: "Approve and begin",
    RolloutAction.PAUSE: "Pause",
    RolloutAction.RESUME: "Resume",
    RolloutAction.ABORT: "Abort: roll back",
    RolloutAction.CANCEL: "Cancel",
    RolloutAction.RETRY: "Try again",
    RolloutAction.REVERT: "Revert: take it back",
}


def steps_of(rollout: Rollout) -> list[Step]:
    """Every phase of this rollout's way in order, the one that it is in marked."""
    phase = rollout.phase
    way = _way(rollout)
    at = way.index(_standing(rollout, way))
    steps = []
    for place, one in enumerate(way):
        now = place == at
        words = "paused" if now and phase is RolloutPhase.PAUSED else one.value.replace("_", " ")
        ended = now and phase in ENDED
        steps.append(Step(words, Place.DONE if place < at or ended else Place.NOW if now else Place.NEXT))
    return steps


def buttons_of(rollout: Rollout, scope: Scope) -> list[Button]:
    """What this state allows, and whose scope is enough."""
    if Scope.OPERATE not in IMPLIED[scope]:
        return []
    admin, phase = Scope.ADMIN in IMPLIED[scope], rollout.phase
    waits = phase in NOT_BEGUN and rollout.needs_approval
    allowed = {
        RolloutAction.APPROVE: waits and admin,
        RolloutAction.START: phase in NOT_BEGUN and not waits and (admin or not rollout.spec.emergency),
        RolloutAction.RESUME: phase is RolloutPhase.PAUSED,
        RolloutAction.PAUSE: phase in _UNDER_WAY - {RolloutPhase.PAUSED} and not rollout.spec.emergency,
        RolloutAction.ABORT: phase in _UNDER_WAY,
        RolloutAction.CANCEL: phase in NOT_BEGUN or phase is RolloutPhase.VALIDATING,
        RolloutAction.REVERT: phase is RolloutPhase.PROMOTED and rollout.previous_revision is not None,
        RolloutAction.RETRY: phase in _UNDONE and (admin or not rollout.spec.emergency),
    }
    return [Button(action, SAYS[action]) for action, may in allowed.items() if may]


def _way(rollout: Rollout) -> list[RolloutPhase]:
    phase, spec = rollout.phase, rollout.spec
    way = [RolloutPhase.AWAITING_APPROVAL if rollout.needs_approval else RolloutPhase.PROPOSED]
    if phase is RolloutPhase.VALIDATING or (phase is RolloutPhase.FAILED and not rollout.told_nodes):
        way.append(RolloutPhase.VALIDATING)
    if phase is RolloutPhase.CANCELLED or (way[-1] is RolloutPhase.VALIDATING and phase is RolloutPhase.FAILED):
        return [*way, phase]
    if spec.emergency:
        way += _ON[3:]
    else:
        soaks = (
            max(spec.soak_s, spec.wave_soak_s) > 0
            or spec.wave_pause
            or RolloutPhase.SOAKING in (phase, rollout.resumes)
        )
        way += [one for one in _ON if one is not RolloutPhase.SOAKING or soaks]
    if phase in (RolloutPhase.ROLLING_BACK, RolloutPhase.ROLLED_BACK, RolloutPhase.FAILED):
        way = [one for one in way if _was(one, rollout)]
        end = phase if phase in ENDED else RolloutPhase.ROLLED_BACK
        way += [RolloutPhase.ROLLING_BACK, end]
    return way


def _was(one: RolloutPhase, rollout: Rollout) -> bool:
    """Whether a rollout that goes back had come so far."""
    if one is RolloutPhase.JUDGING:
        return rollout.judging_since is not None
    if one is RolloutPhase.PROMOTING:
        return len(rollout.told_nodes) > len(rollout.canary_nodes)
    return one not in (RolloutPhase.SOAKING, RolloutPhase.PROMOTED)


def _standing(rollout: Rollout, way: list[RolloutPhase]) -> RolloutPhase:
    if rollout.phase is RolloutPhase.PAUSED and rollout.resumes in way:
        return rollout.resumes
    return rollout.phase if rollout.phase in way else way[0]
