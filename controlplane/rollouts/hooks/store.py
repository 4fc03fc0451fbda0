"""Hooks in the database, inside the caller's transaction; each change is in the ledger.

Guarantee: URL and secret are stored encrypted, and a secret is kept as `keys.kept_secret` says.
"""

from datetime import datetime

from sqlmodel import Session, col, select, update

from controlplane import ledger
from controlplane.contract.changes.hooks import Hook, HookSettings
from controlplane.contract.errors import BadRequest, Conflict
from controlplane.contract.shown_url import masked
from controlplane.db.rows import existing, newest
from controlplane.keys import Keyring
from controlplane.keys.kept_secret import Secret, elsewhere, kept
from controlplane.rollouts.hooks.tables import RolloutHookCallRow, RolloutHookRow, place_of

MOST = 10
"""Hooks of one pool: each step of its rollouts calls those of its kind."""


def hooks(session: Session, *, before_id: int | None, limit: int, pool: str | None = None) -> list[Hook]:
    """Newest first."""
    query = newest(RolloutHookRow, before_id, limit)
    if pool is not None:
        query = query.where(RolloutHookRow.pool == pool)
    return [_view(row) for row in session.exec(query)]


def set_hook(session: Session, wanted: HookSettings, keyring: Keyring, *, actor: str, now: datetime) -> Hook:
    """Make this the pool's hook of that name. Raises `BadRequest` and `Conflict`."""
    query = select(RolloutHookRow).where(RolloutHookRow.pool == wanted.pool)
    there = {row.name: row for row in session.exec(query.with_for_update())}
    row = there.get(wanted.name)
    if row is None and len(there) >= MOST:
        raise Conflict(f"pool: {wanted.pool!r} has {MOST} hooks already, the most there may be", field="pool")
    url = _kept(wanted, "url", row, keyring)
    if url is None:
        raise BadRequest("url: say where the hook is, or url_kept where one is there", field="url")
    secret = _kept(wanted, "secret", row, keyring)
    if wanted.secret_kept and row is not None and masked(url) != row.shown:
        raise elsewhere(row.shown)
    plain = wanted.model_dump(mode="json", include={"kind", "timeout_s", "retries", "on_silence"})
    row = row or RolloutHookRow(pool=wanted.pool, name=wanted.name, shown="", updated_by=actor, updated_at=now, **plain)
    row.sqlmodel_update({**plain, "shown": masked(url), "updated_by": actor, "updated_at": now})
    session.add(row)
    session.flush()
    assert row.id is not None
    row.url = keyring.encrypt(session, place_of(row.id, "url"), url)
    row.secret = None if secret is None else keyring.encrypt(session, place_of(row.id, "secret"), secret)
    session.flush()
    said = f"hook {row.name!r} of pool {row.pool} ({row.kind}) at {row.shown}"
    about = {"hook_kind" if name == "kind" else name: value for name, value in plain.items()}
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


def _kept(wanted: HookSettings, name: str, row: RolloutHookRow | None, keyring: Keyring) -> str | None:
    """The URL or the secret that it shall have; None for none."""
    given: str | None = getattr(wanted, name)
    if not getattr(wanted, f"{name}_kept"):
        return given
    stored = None if row is None else Secret.read(keyring, place_of(row.id or 0, name), getattr(row, name))
    return kept(name, given, stored, f"hook {wanted.name!r}")


def _view(row: RolloutHookRow) -> Hook:
    return Hook.model_validate({**row.model_dump(), "url": row.shown, "signed": row.secret is not None})


def _note(
    session: Session, now: datetime, actor: str, verb: str, row: RolloutHookRow, message: str, **evidence: object
) -> None:
    ledger.append(
        session, now, actor, f"rollout_rule.{verb}", f"rollout-hook/{row.id}", message, pool=row.pool, **evidence
    )
