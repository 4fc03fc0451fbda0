"""Hooks in the database, inside the caller's transaction; each change is in the ledger.

Guarantee: URL and secret are stored encrypted, and a secret is kept as `keys.kept_secret` says.
"""

from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select, update

from controlplane import ledger
from controlplane.contract.changes.hooks import Hook, HookSettings
from controlplane.contract.errors import Conflict
from controlplane.contract.shown_url import masked
from controlplane.db.rows import existing, moved, newest
from controlplane.keys import Keyring
from controlplane.keys.kept_secret import Secret
from controlplane.rollouts.hooks.checks import SECRETS, whole_hook
from controlplane.rollouts.hooks.tables import RolloutHookCallRow, RolloutHookRow, place_of

MOST = 10
"""Hooks of one pool: each step of its rollouts calls those of its kind."""


def hooks(session: Session, *, before_id: int | None, limit: int, pool: str | None = None) -> list[Hook]:
    """Newest first."""
    query = newest(RolloutHookRow, before_id, limit)
    if pool is not None:
        query = query.where(RolloutHookRow.pool == pool)
    return [_view(row) for row in session.exec(query)]


def set_hook(
    session: Session,
    wanted: HookSettings,
    keyring: Keyring,
    *,
    actor: str,
    now: datetime,
    origin: str | None = None,
) -> Hook:
    """Make this the pool's hook of that name. origin: the file that makes it. Raises `BadRequest` and `Conflict`."""
    query = select(RolloutHookRow).where(RolloutHookRow.pool == wanted.pool)
    there = {row.name: row for row in session.exec(query.with_for_update())}
    row = there.get(wanted.name)
    if row is None and len(there) >= MOST:
        raise Conflict(f"pool: {wanted.pool!r} has {MOST} hooks already, the most there may be", field="pool")
    stored = {} if row is None else secrets_of(row, keyring)
    whole = whole_hook(wanted, stored, "" if row is None else row.shown)
    url, secret = whole.url or "", whole.secret
    plain = wanted.model_dump(mode="json", include={"kind", "timeout_s", "retries", "on_silence"})
    who: dict[str, Any] = {"updated_by": actor, "updated_at": now}
    if row is None:
        row = RolloutHookRow(pool=wanted.pool, name=wanted.name, shown="", origin=origin, **plain, **who)
    row.sqlmodel_update({**plain, **who, "shown": masked(url), "origin": moved(row.origin, origin)})
    session.add(row)
    session.flush()
    assert row.id is not None
    row.url = keyring.encrypt(session, place_of(row.id, "url"), url)
    row.secret = None if secret is None else keyring.encrypt(session, place_of(row.id, "secret"), secret)
    session.flush()
    said = f"hook {row.name!r} of pool {row.pool} ({row.kind}) at {row.shown}"
    about = {"hook_kind" if name == "kind" else name: value for name, value in plain.items()}
    about |= {} if origin is None else {"origin": origin}
    _note(session, now, actor, "hook_set", row, said, signed=secret is not None, **about)
    return _view(row)


def remove_hook(session: Session, hook_id: int, *, actor: str, now: datetime) -> None:
    """It is neither asked nor told any more, and no rollout waits for it."""
    row = existing(session, RolloutHookRow, hook_id, "hook", field="hook_id", lock=True)
    session.exec(
        update(RolloutHookCallRow).where(col(RolloutHookCallRow.hook_id) == hook_id).values(next_attempt_at=None)
    )
    _note(session, now, actor, "hook_removed", row, f"hook {row.name!r} of pool {row.pool} removed")
    session.delete(row)


def secrets_of(row: RolloutHookRow, keyring: Keyring) -> dict[str, Secret | None]:
    """What is there, by name; None where there is none."""
    return {name: Secret.read(keyring, place_of(row.id or 0, name), getattr(row, name)) for name in SECRETS}


def _view(row: RolloutHookRow) -> Hook:
    return Hook.model_validate({**row.model_dump(), "url": row.shown, "signed": row.secret is not None})


def _note(
    session: Session, now: datetime, actor: str, verb: str, row: RolloutHookRow, message: str, **evidence: object
) -> None:
    ledger.append(
        session, now, actor, f"rollout_rule.{verb}", f"rollout-hook/{row.id}", message, pool=row.pool, **evidence
    )
