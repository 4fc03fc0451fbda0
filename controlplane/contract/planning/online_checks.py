"""What a study in production may say: nothing is replayed, and each step is judged on live traffic. Pure."""

from controlplane.contract.bodies.knob_schema import OF_LIMITS, REPLAYED
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import KNOBS

OF_REPLAYS = (
    *("max_lost_share", "least_agreement", "most_logprob_drop", "evaluation", "evaluation_margin", "suggested"),
    *("workload", "workload_s", "load", "trial_requests", "load_replays", "finalists", "finalist_repeats", "seed"),
    *("prompts", "also", "also_tolerance", "node_hour_price", "currency"),
    *("propose_rollout", "auto_start_rollout"),
)
"""Fields of a study that trials on a node of their own alone have."""
OF_STEPS = ("start", "on_inconclusive", "only_better", "objective", "objective_q", "metrics", "levels")
"""Fields of a rollout that each step says itself."""


def check_online(spec: StudyCreate) -> None:
    """Raises `BadRequest` for the first field that has no meaning there."""
    if spec.online is None:
        return
    if spec.objective in OF_LIMITS:
        raise BadRequest(
            f"objective: {spec.objective} wants replays; a step in production is judged by a quantile of "
            f"{', '.join(REPLAYED)}",
            field="objective",
        )
    for name in OF_REPLAYS:
        if getattr(spec, name) != StudyCreate.model_fields[name].get_default():
            raise BadRequest(f"{name}: nothing is replayed by a study in production (online)", field=name)
    for name in spec.space:
        if name not in KNOBS:
            raise BadRequest(
                f"space.{name}: a study in production (online) moves the contract's own knobs: {', '.join(KNOBS)}",
                field=f"space.{name}",
            )
    for name in OF_STEPS:
        if name in spec.rollout:
            raise BadRequest(
                f"rollout.{name}: each step of a study in production (online) says this itself", field=f"rollout.{name}"
            )
