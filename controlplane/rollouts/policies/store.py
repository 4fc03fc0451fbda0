"""Policies, freeze windows and pins in the database, inside the caller's transaction; each change is in the ledger."""

from collections.abc import Sequence
from datetime import datetime

from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.errors import BadRequest, Conflict
from controlplane.contract.on_call.rollout_policies import (
    Freeze,
    FreezeCreate,
    Pin,
    PinCreate,
    RolloutPolicy,
    RolloutPolicyCreate,
)
from controlplane.db.rows import existing, newest
from controlplane.fleet import store as fleet
from controlplane.rollouts.policies.gates import why_closed
from controlplane.rollouts.policies.tables import FreezeRow, PinRow, RolloutPolicyRow

# -- what rollouts ask ------------------------------------------------------------------------------------------------


def policy_of(session: Session, pool: str) -> RolloutPolicyCreate:
    """A pool's policy; of one without, the policy that asks for nothing."""
    row = session.exec(select(RolloutPolicyRow).where(RolloutPolicyRow.pool == pool)).first()
    return RolloutPolicyCreate(pool=pool) if row is None else RolloutPolicyCreate.model_validate(row.policy)


def closed(session: Session, pool: str, now: datetime) -> str | None:
    """Why no stage may begin in this pool now; None where one may."""
    rows = session.exec(select(FreezeRow).where(col(FreezeRow.ends_at) > now))
    return why_closed(pool, policy_of(session, pool).hours, [_freeze(row) for row in rows], now)


def pinned(session: Session, pool: str) -> dict[str, Pin]:
    """Pins by node; under "" that of the whole pool."""
    return {row.place: _pin(row) for row in session.exec(select(PinRow).where(PinRow.pool == pool))}


def tellable(session: Session, pool: str) -> list[NodeView]:
    """The pool's serving nodes that may be told another revision, by name."""
    return not_pinned(session, pool, fleet.nodes(session, pool=pool, role=NodeRole.SERVING))


def not_pinned(session: Session, pool: str, serving: Sequence[NodeView]) -> list[NodeView]:
    """Of the pool's serving nodes those that may be told another revision."""
    pins = pinned(session, pool)
    return [view for view in serving if view.node not in pins]


def check_not_pinned(session: Session, pool: str, revision: int) -> None:
    """Raises `Conflict` where the pool is pinned to another revision."""
    pin = pinned(session, pool).get("")
    if pin is not None and pin.revision != revision:
        raise Conflict(
            f"pool: {pool!r} is pinned to revision {pin.revision} by {pin.created_by} (pin {pin.id}): {pin.reason}",
            field="pool",
            pin=pin.id,
        )


# -- what people change -----------------------------------------------------------------------------------------------


def policies(session: Session, *, before_id: int | None, limit: int) -> list[RolloutPolicy]:
    """Newest first."""
    return [_policy(row) for row in session.exec(newest(RolloutPolicyRow, before_id, limit))]


def set_policy(session: Session, wanted: RolloutPolicyCreate, *, actor: str, now: datetime) -> RolloutPolicy:
    """Make this the pool's policy."""
    row = session.exec(select(RolloutPolicyRow).where(RolloutPolicyRow.pool == wanted.pool)).first()
    before = None if row is None else row.policy
    row = row or RolloutPolicyRow(pool=wanted.pool, policy={}, updated_by=actor, updated_at=now)
    row.policy, row.updated_by, row.updated_at = wanted.model_dump(mode="json"), actor, now
    session.add(row)
    session.flush()
    _note(session, now, actor, "policy_set", f"rollout-policy/{row.id}", f"policy of pool {wanted.pool}", before=before)
    return _policy(row)


def remove_policy(session: Session, policy_id: int, *, actor: str, now: datetime) -> None:
    row = existing(session, RolloutPolicyRow, policy_id, "policy", field="policy_id")
    said = f"policy of pool {row.pool} removed"
    _note(session, now, actor, "policy_removed", f"rollout-policy/{row.id}", said, before=row.policy)
    session.delete(row)


def freezes(session: Session, *, before_id: int | None, limit: int) -> list[Freeze]:
    """Newest first, those that are over too."""
    return [_freeze(row) for row in session.exec(newest(FreezeRow, before_id, limit))]


def freeze(session: Session, wanted: FreezeCreate, *, actor: str, now: datetime) -> Freeze:
    """Raises `BadRequest` for a window that is over before it begins, or already."""
    if wanted.ends_at <= max(wanted.starts_at, now):
        raise BadRequest("ends_at: lies before its start, or is over already", field="ends_at")
    row = FreezeRow(**wanted.model_dump(), created_by=actor, created_at=now)
    session.add(row)
    session.flush()
    whole = "every pool" if row.pool is None else f"pool {row.pool}"
    said = f"{whole} is frozen from {row.starts_at:%Y-%m-%d %H:%M} to {row.ends_at:%Y-%m-%d %H:%M} UTC: {row.reason}"
    _note(session, now, actor, "frozen", f"freeze/{row.id}", said, pool=row.pool)
    return _freeze(row)


def lift(session: Session, freeze_id: int, *, actor: str, now: datetime) -> None:
    """Remove a window: stages may begin again."""
    row = existing(session, FreezeRow, freeze_id, "freeze window", field="freeze_id")
    _note(
        session,
        now,
        actor,
        "freeze_lifted",
        f"freeze/{row.id}",
        f"freeze {row.id} lifted",
        **_freeze(row).model_dump(mode="json"),
    )
    session.delete(row)


def pins(session: Session, *, before_id: int | None, limit: int) -> list[Pin]:
    """Newest first."""
    return [_pin(row) for row in session.exec(newest(PinRow, before_id, limit))]


def pin(session: Session, wanted: PinCreate, busy: str | None, *, actor: str, now: datetime) -> Pin:
    """Keep a node or a pool at the revision that it should run now. busy: the pool's rollout under way.

    Raises `Conflict` while a rollout is under way, for what is pinned already, and where no revision is known;
    `BadRequest` for a node that does not serve in the pool.
    """
    _check_quiet(wanted.pool, busy)
    views = {view.node: view for view in fleet.nodes(session, pool=wanted.pool, role=NodeRole.SERVING)}
    if wanted.node is not None and wanted.node not in views:
        raise BadRequest(f"node: {wanted.node!r} does not serve in pool {wanted.pool!r}", field="node")
    if (wanted.node or "") in pinned(session, wanted.pool):
        raise Conflict("node: it is pinned already", field="node")
    revision = fleet.pool_revision(session, wanted.pool)
    if wanted.node is not None:
        revision = views[wanted.node].desired_revision
    if revision is None:
        raise Conflict("pool: no revision is known that it could keep", field="pool")
    row = PinRow(
        pool=wanted.pool,
        place=wanted.node or "",
        revision=revision,
        reason=wanted.reason,
        created_by=actor,
        created_at=now,
    )
    session.add(row)
    session.flush()
    if wanted.node is not None:
        fleet.set_override(session, [wanted.node], revision, now)
    _note(session, now, actor, "pinned", f"pin/{row.id}", f"{_what(row)} keeps revision {revision}: {row.reason}")
    return _pin(row)


def unpin(session: Session, pin_id: int, busy: dict[str, str], *, actor: str, now: datetime) -> None:
    """Let it follow its pool again. Raises `Conflict` while a rollout is under way there."""
    row = existing(session, PinRow, pin_id, "pin", field="pin_id")
    _check_quiet(row.pool, busy.get(row.pool))
    if row.place and any(view.node == row.place for view in fleet.nodes(session, pool=row.pool)):
        fleet.set_override(session, [row.place], None, now)
    _note(session, now, actor, "unpinned", f"pin/{row.id}", f"{_what(row)} follows its pool again")
    session.delete(row)


def _check_quiet(pool: str, busy: str | None) -> None:
    if busy is not None:
        raise Conflict(f"pool: {busy} is under way in pool {pool!r}; wait for its end or abort it", field="pool")


def _what(row: PinRow) -> str:
    return f"node {row.place}" if row.place else f"pool {row.pool}"


def _policy(row: RolloutPolicyRow) -> RolloutPolicy:
    return RolloutPolicy(**row.policy, id=row.id or 0, updated_by=row.updated_by, updated_at=row.updated_at)


def _freeze(row: FreezeRow) -> Freeze:
    return Freeze.model_validate(row.model_dump())


def _pin(row: PinRow) -> Pin:
    return Pin.model_validate({**row.model_dump(exclude={"place"}), "node": row.place or None})


def _note(
    session: Session, now: datetime, actor: str, verb: str, subject: str, message: str, **evidence: object
) -> None:
    ledger.append(session, now, actor, f"rollout_rule.{verb}", subject, message, **evidence)
