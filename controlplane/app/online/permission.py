"""Who may ask for a study in production: its steps are rollouts that begin by themselves."""

from sqlmodel import Session

from controlplane.auth import Principal
from controlplane.contract.errors import Conflict, Forbidden
from controlplane.rollouts.approval import hand_of
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.policies.gates import is_named


def may_tune(session: Session, pool: str, principal: Principal) -> None:
    """Raises `Conflict` where each rollout of the pool waits for an approval, `Forbidden` for who may not propose."""
    why = wants_approval(session, pool)
    if why is not None:
        raise Conflict(f"online: {why}", field="online")
    proposers = policies.policy_of(session, pool).proposers
    if not is_named(proposers, hand_of(session, principal).names):
        raise Forbidden(
            f"pool: the policy of {pool!r} lets {', '.join(proposers)} propose alone", field="Authorization"
        )


def wants_approval(session: Session, pool: str) -> str | None:
    """Why no step begins by itself; None where it may."""
    if not policies.policy_of(session, pool).needs_approval:
        return None
    return f"the policy of pool {pool!r} wants each rollout approved, and steps begin by themselves"
