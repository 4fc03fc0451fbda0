"""What a step's rollout says of the step (pure)."""

from typing import Any

from controlplane.contract.bodies.rollouts import ENDED, UNDECIDED, Rollout, RolloutPhase, Verdict
from controlplane.contract.planning.online_mode import OnlineStep, StepOutcome


def outcome_of(rollout: Rollout) -> StepOutcome | None:
    """None while it is under way. Only what was promoted is better: one that was judged so, and then broke off or was
    stopped, is not."""
    if rollout.phase not in ENDED:
        return None
    if rollout.phase is RolloutPhase.PROMOTED:
        return StepOutcome.BETTER
    if rollout.phase is RolloutPhase.ROLLED_BACK and rollout.verdict in (Verdict.WORSE, Verdict.NOT_WORSE):
        return StepOutcome.WORSE if rollout.verdict is Verdict.WORSE else StepOutcome.SAFE
    is_undecided = rollout.verdict is Verdict.INCONCLUSIVE and UNDECIDED in rollout.message
    return StepOutcome.INCONCLUSIVE if is_undecided else StepOutcome.STOPPED


def is_stranded(rollout: Rollout) -> bool:
    """Whether nodes could be brought neither on nor back, so that a person has to look."""
    return rollout.phase is RolloutPhase.FAILED and bool(rollout.told_nodes)


def ended_step(step: OnlineStep, rollout: Rollout) -> OnlineStep:
    """The step with what its rollout has shown of the objective."""
    account = _account(rollout)
    line: dict[str, Any] = next(iter(account.get("lines", {}).values()), {})  # There is one: the objective's.
    return step.model_copy(
        update={
            "outcome": outcome_of(rollout),
            "verdict": rollout.verdict,
            "control_s": _quantile_s(rollout, "control"),
            "ratio": line.get("ratio"),
            "interval": tuple(line["interval"]) if "interval" in line else None,
            "message": rollout.message,
        }
    )


def canary_s(rollout: Rollout) -> float | None:
    """The objective's quantile of the canary while it was compared, seconds; None where none was told."""
    return _quantile_s(rollout, "canary")


def _account(rollout: Rollout) -> dict[str, Any]:
    found: dict[str, Any] = rollout.evidence.get("metrics", {}).get(rollout.spec.objective, {})
    return found


def _quantile_s(rollout: Rollout, arm: str) -> float | None:
    found = _account(rollout).get(arm, {}).get(f"p{100 * rollout.spec.objective_q:g}")
    return None if found is None else float(found)
