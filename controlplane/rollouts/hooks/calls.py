"""Calls of hooks in the database, inside the caller's transaction: what is to be asked or told, and what was answered.

Guarantee: a step that is in the database has its calls there too, each once, however many replicas look at it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlmodel import Session, col, select, update

from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.changes.hooks import HookCall, HookKind, HookState, OnSilence
from controlplane.fleet import store as fleet
from controlplane.rollouts.decision import OPEN, Gate
from controlplane.rollouts.hooks.hook_body import body_of
from controlplane.rollouts.hooks.hook_gate import Asked, confirming, gate_of
from controlplane.rollouts.hooks.tables import RolloutHookCallRow, RolloutHookRow
from controlplane.rollouts.tables import RolloutRow
from controlplane.rollouts.view import state_of


def gate(session: Session, row: RolloutRow) -> Gate:
    """Whether the hooks that confirm let it go on where it is now."""
    kind = confirming(state_of(row))
    if kind is None:
        return OPEN
    hooks = _hooks(session, row.pool, (kind,))
    if not hooks:
        return OPEN
    query = select(RolloutHookCallRow).where(
        RolloutHookCallRow.rollout_id == row.id, RolloutHookCallRow.step == row.step
    )
    calls = {call.hook_id: call for call in session.exec(query)}
    return gate_of(_asked(hook, calls.get(hook.id or 0)) for hook in hooks)


def ask(session: Session, row: RolloutRow, hook_ids: Collection[int], now: datetime) -> None:
    """Have these hooks asked whether it may go on."""
    kind = confirming(state_of(row))
    assert kind is not None
    _add(session, row, [hook for hook in _hooks(session, row.pool, (kind,)) if hook.id in hook_ids], now)


def tell(session: Session, row: RolloutRow, now: datetime) -> None:
    """After a step: have those called that are only told, and no longer ask for the steps before it."""
    kinds = [HookKind.EVENT] + ([HookKind.ROLLBACK] if row.phase == RolloutPhase.ROLLING_BACK.value else [])
    session.exec(
        update(RolloutHookCallRow)
        .where(col(RolloutHookCallRow.rollout_id) == row.id, col(RolloutHookCallRow.kind).in_(_ASKING))
        .values(next_attempt_at=None)
    )
    _add(session, row, _hooks(session, row.pool, kinds), now)


def of_rollouts(session: Session, rollout_ids: Collection[int | None]) -> dict[int, list[HookCall]]:
    """The newest call of each hook, by rollout, in the order in which they were wanted."""
    query = (
        select(RolloutHookCallRow)
        .where(col(RolloutHookCallRow.rollout_id).in_(rollout_ids))
        .order_by(col(RolloutHookCallRow.id))
    )
    newest: dict[tuple[int, int], RolloutHookCallRow] = {}
    for call in session.exec(query):
        newest.pop((call.rollout_id, call.hook_id), None)
        newest[call.rollout_id, call.hook_id] = call
    found: dict[int, list[HookCall]] = {}
    for (rollout_id, _), call in newest.items():
        found.setdefault(rollout_id, []).append(HookCall.model_validate(call.model_dump()))
    return found


_ASKING = [kind.value for kind in HookKind if kind.asks]


def _hooks(session: Session, pool: str, kinds: Collection[HookKind]) -> Sequence[RolloutHookRow]:
    query = select(RolloutHookRow).where(RolloutHookRow.pool == pool, col(RolloutHookRow.kind).in_(kinds))
    return session.exec(query.order_by(col(RolloutHookRow.id))).all()


def _asked(hook: RolloutHookRow, call: RolloutHookCallRow | None) -> Asked:
    answered = None if call is None else HookState(call.state)
    return Asked(hook.id or 0, hook.name, OnSilence(hook.on_silence), answered, "" if call is None else call.reason)


def _add(session: Session, row: RolloutRow, hooks: Sequence[RolloutHookRow], now: datetime) -> None:
    if not hooks:
        return
    new = fleet.revision(session, row.spec["revision"])
    previous = None if row.previous_revision is None else fleet.revision(session, row.previous_revision)
    for hook in hooks:
        call = RolloutHookCallRow(
            rollout_id=row.id or 0,
            hook_id=hook.id or 0,
            step=row.step,
            name=hook.name,
            kind=hook.kind,
            state=HookState.WAITING.value,
            body=body_of(row, HookKind(hook.kind), new, previous, now),
            asked_at=now,
            next_attempt_at=now,
        )
        session.add(call)
    session.flush()
