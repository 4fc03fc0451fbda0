"""The rollout that a step in production is (pure)."""

from typing import Any

from controlplane.contract.bodies.rollouts import OnInconclusive, RolloutCreate
from controlplane.contract.bodies.studies import StudyCreate

LONGEST_REASON = 500


def step_rollout(
    spec: StudyCreate, revision: int, *, study_id: int, number: int, title: str, asked_by: str
) -> RolloutCreate:
    """Judged by the study's objective and limits as a winner's is; what is not shown to be better goes back."""
    reason = f"study {study_id} (asked for by {asked_by}), step {number} in production: {title}"
    wanted: dict[str, Any] = {
        **spec.rollout,
        "pool": spec.pool,
        "revision": revision,
        "objective": spec.objective,
        "objective_q": spec.objective_q,
        "limits": [*spec.rollout.get("limits", []), *(limit.model_dump() for limit in spec.constraints)],
        "only_better": True,
        "on_inconclusive": OnInconclusive.ROLL_BACK,
        "reason": reason[:LONGEST_REASON],
        "study_id": study_id,
        "study_step": number,
    }
    return RolloutCreate.model_validate(wanted)
