"""Hooks of rollouts over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from controlplane.auth import Admin, Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.pages import Page
from controlplane.contract.changes.hooks import Hook, HookSettings
from controlplane.db import SessionDep
from controlplane.db.ids import PathId
from controlplane.db.paging import Cursor, Limit, PoolFilter, page_of
from controlplane.rollouts.hooks import store

router = APIRouter(prefix="/api/v1", tags=["rollouts"])

Keys = Annotated[AuthParts, Depends(AuthParts.given)]


@router.get("/rollout-hooks")
def list_rollout_hooks(
    session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None, pool: PoolFilter = None
) -> Page[Hook]:
    """Hooks of pools, newest first. What is secret in a URL is shown to nobody."""
    return page_of(store.hooks(session, before_id=cursor, limit=limit + 1, pool=pool), limit)


@router.put("/rollout-hooks")
def set_rollout_hook(wanted: HookSettings, session: SessionDep, principal: Admin, service: Keys) -> Hook:
    """Say whom a pool's rollouts ask or tell; it replaces the pool's hook of that name."""
    return store.set_hook(session, wanted, service.keyring, actor=principal.actor, now=service.clock())


@router.delete("/rollout-hooks/{hook_id}", status_code=204)
def remove_rollout_hook(hook_id: PathId, session: SessionDep, principal: Admin, service: Keys) -> Response:
    """Remove a hook: a rollout that waits for it goes on."""
    store.remove_hook(session, hook_id, actor=principal.actor, now=service.clock())
    return Response(status_code=204)
