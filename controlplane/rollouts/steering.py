"""What people do with a rollout that is there: cancel, abort, pause, resume, retry, revert.

All in the caller's transaction.

Guarantee: who asks for what is so already changes nothing, and writes nothing down.
"""

from collections.abc import Callable
from datetime import datetime

from sqlmodel import Session

from controlplane.contract.bodies.rollouts import ENDED, OnInconclusive, Rollout, RolloutCreate, RolloutPhase
from controlplane.contract.errors import Conflict
from controlplane.rollouts import interventions, store
from controlplane.rollouts.approval import Hand
from controlplane.rollouts.decision import Decision, State
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.view import state_of

_AS_BEFORE = (
    *("canary_share", "metrics", "levels", "profile", "tolerance", "alpha"),
    *("max_step_share", "wave_by", "wave_order"),
)
"""Of a rollout, what its revert is told and judged by, too."""


def cancel(session: Session, rollout_id: int, *, actor: str, now: datetime) -> Rollout:
    """Before it began: cancelled. Under way: rolled back. Raises `Conflict` when it has ended."""
    return _steer(session, rollout_id, interventions.cancel, actor, now)


def abort(session: Session, rollout_id: int, *, actor: str, now: datetime) -> Rollout:
    """Roll back what is under way. Raises `Conflict` for what has not begun, or has ended."""
    return _steer(session, rollout_id, interventions.abort, actor, now)


def pause(session: Session, rollout_id: int, *, actor: str, now: datetime, why: str = "") -> Rollout:
    """Tell no more nodes until it is resumed. Raises `Conflict` for what is not under way, or goes back."""
    return _steer(session, rollout_id, lambda state: interventions.pause(state, str(actor), why), actor, now)


def resume(session: Session, rollout_id: int, *, actor: str, now: datetime) -> Rollout:
    """Go on where it was paused. Raises `Conflict` for what is not paused."""
    return _steer(session, rollout_id, lambda state: interventions.resume(state, str(actor)), actor, now)


def retry(session: Session, rollout_id: int, *, actor: str, now: datetime, hand: Hand, **how: bool) -> Rollout:
    """Another rollout of the same, of one that has ended without being promoted. Raises `Conflict` for any other.

    how: `two` and `validates`, as `store.create` takes them.
    """
    row = store.row_of(session, rollout_id)
    if RolloutPhase(row.phase) not in ENDED - {RolloutPhase.PROMOTED}:
        raise Conflict(f"rollout {rollout_id} ({row.phase}) cannot be retried: it has not gone back", field="phase")
    spec = RolloutCreate.model_validate(row.spec).model_copy(update={"start": True})
    return store.create(session, spec, actor=actor, now=now, hand=hand, follows=rollout_id, **how)


def revert(session: Session, rollout_id: int, *, actor: str, now: datetime, hand: Hand, **how: bool) -> Rollout:
    """Take back what a rollout has promoted: a judged rollout of what the pool ran before.

    Raises `Conflict` for one that was not promoted, or whose revision is in production no more.
    """
    row = store.row_of(session, rollout_id)
    if row.phase != RolloutPhase.PROMOTED.value or row.previous_revision is None:
        what = "there was no revision before it" if row.phase == RolloutPhase.PROMOTED.value else "it was not promoted"
        raise Conflict(f"rollout {rollout_id} ({row.phase}) cannot be reverted: {what}", field="phase")
    before = RolloutCreate.model_validate(row.spec)
    spec = RolloutCreate(
        pool=row.pool,
        revision=row.previous_revision,
        takes_back=before.revision,
        reason=f"reverts rollout {rollout_id}",
        on_inconclusive=OnInconclusive.HOLD,
        **before.model_dump(include=set(_AS_BEFORE)),
    )
    return store.create(session, spec, actor=actor, now=now, hand=hand, follows=rollout_id, **how)


def _steer(
    session: Session, rollout_id: int, ask: Callable[[State], Decision | None], actor: str, now: datetime
) -> Rollout:
    row = store.row_of(session, rollout_id, lock=True)
    decision = ask(state_of(row))
    if decision is not None:
        store.carry_out(session, row, decision, policies.tellable(session, row.pool), actor=actor, now=now)
    return store.shown(session, row)
