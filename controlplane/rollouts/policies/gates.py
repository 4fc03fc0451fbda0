"""What policies, freeze windows and hours say of a rollout (pure)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.on_call.rollout_policies import Freeze, Hours, RolloutPolicyCreate


def why_closed(pool: str, hours: Hours | None, freezes: Sequence[Freeze], now: datetime) -> str | None:
    """Why no stage may begin now; None where one may. Of several windows the one that ends last."""
    frozen = [one for one in freezes if one.pool in (None, pool) and one.starts_at <= now < one.ends_at]
    if frozen:
        last = max(frozen, key=lambda one: one.ends_at)
        whole = "every pool" if last.pool is None else f"pool {pool}"
        return f"freeze {last.id} holds {whole} until {last.ends_at:%Y-%m-%d %H:%M} UTC: {last.reason}"
    if hours is not None and not hours.is_open(now):
        days = ", ".join(day.value for day in hours.days)
        return f"pool {pool} is changed {days} from {hours.opens} to {hours.closes} ({hours.zone}) only"
    return None


def bounded(spec: RolloutCreate, policy: RolloutPolicyCreate) -> RolloutCreate:
    """The rollout with what the policy says where it does not, and no larger steps than the policy allows."""
    steps = [share for share in (spec.max_step_share, policy.max_step_share) if share is not None]
    undecided = policy.on_inconclusive if spec.on_inconclusive is None else spec.on_inconclusive
    said: dict[str, Any] = {"max_step_share": min(steps, default=None), "on_inconclusive": undecided}
    if not spec.wave_by:
        said |= {"wave_by": policy.wave_by, "wave_order": policy.wave_order}
    if spec.takes_back is not None:  # What hurts is taken back wherever it can be, and soon.
        return spec.model_copy(update=said)
    if not spec.wave_by:
        said |= {"wave_soak_s": policy.wave_soak_s, "wave_pause": policy.wave_pause}
    if not spec.canary_selector:
        said["canary_selector"] = policy.canary_selector
    return spec.model_copy(update=said)


def is_named(allowed: Sequence[str], names: Sequence[str]) -> bool:
    """Whether one of these names (plain, as `approval.Hand` has them) is allowed; nobody named: everybody is."""
    return not allowed or bool({" ".join(one.casefold().split()) for one in allowed} & set(names))
