"""A rollout's row as the API shows it."""

from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate
from controlplane.rollouts.judging.judging_plan import plan_of
from controlplane.rollouts.tables import RolloutRow


def rollout_view(row: RolloutRow) -> Rollout:
    shown = row.model_dump(include=set(Rollout.model_fields) - {"spec", "plan"})
    spec = RolloutCreate.model_validate(row.spec)
    return Rollout.model_validate({**shown, "spec": spec, "plan": plan_of(spec)})
