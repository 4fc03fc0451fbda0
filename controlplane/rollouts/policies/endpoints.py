"""Rollout policies, freeze windows and pins over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from controlplane.auth import Admin, Operator, Reader
from controlplane.contract.bodies.pages import Page
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import NotFound
from controlplane.contract.on_call.rollout_policies import (
    Freeze,
    FreezeCreate,
    Pin,
    PinCreate,
    RolloutPolicy,
    RolloutPolicyCreate,
)
from controlplane.db import SessionDep
from controlplane.db.ids import PathId
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.fleet.opamp.hub import FleetParts
from controlplane.rollouts.policies import store
from controlplane.rollouts.store import busy_pools

router = APIRouter(prefix="/api/v1", tags=["rollouts"])

Fleet = Annotated[FleetParts, Depends(FleetParts.given)]


@router.get("/rollout-policies")
def list_rollout_policies(
    session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None
) -> Page[RolloutPolicy]:
    """Policies of pools, newest first."""
    return page_of(store.policies(session, before_id=cursor, limit=limit + 1), limit)


@router.put("/rollout-policies")
def set_rollout_policy(
    wanted: RolloutPolicyCreate, session: SessionDep, principal: Admin, service: Fleet
) -> RolloutPolicy:
    """Say who may roll out to a pool, how much at once and at what hours; it replaces the pool's policy."""
    return store.set_policy(session, wanted, actor=principal.actor, now=service.clock())


@router.delete("/rollout-policies/{policy_id}", status_code=204)
def remove_rollout_policy(policy_id: PathId, session: SessionDep, principal: Admin, service: Fleet) -> Response:
    """Remove a pool's policy: nothing but scopes holds there any more."""
    store.remove_policy(session, policy_id, actor=principal.actor, now=service.clock())
    return Response(status_code=204)


@router.get("/freezes")
def list_freezes(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[Freeze]:
    """Freeze windows, newest first."""
    return page_of(store.freezes(session, before_id=cursor, limit=limit + 1), limit)


@router.post("/freezes", status_code=201)
def create_freeze(wanted: FreezeCreate, session: SessionDep, principal: Operator, service: Fleet) -> Freeze:
    """Let no rollout begin, or tell more nodes, for a time. An emergency may, and the ledger says so."""
    return store.freeze(session, wanted, actor=principal.actor, now=service.clock())


@router.delete("/freezes/{freeze_id}", status_code=204)
def lift_freeze(freeze_id: PathId, session: SessionDep, principal: Admin, service: Fleet) -> Response:
    """Lift a freeze window before its end."""
    store.lift(session, freeze_id, actor=principal.actor, now=service.clock())
    return Response(status_code=204)


@router.get("/pins")
def list_pins(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[Pin]:
    """Pinned nodes and pools, newest first."""
    return page_of(store.pins(session, before_id=cursor, limit=limit + 1), limit)


@router.post("/pins", status_code=201, responses=answers(NotFound))
def create_pin(wanted: PinCreate, session: SessionDep, principal: Operator, service: Fleet) -> Pin:
    """Keep a node or a whole pool at the revision that it should run now, until it is unpinned."""
    busy = busy_pools(session).get(wanted.pool)
    made = store.pin(session, wanted, busy, actor=principal.actor, now=service.clock())
    service.fleet.poke_after_commit(session)
    return made


@router.delete("/pins/{pin_id}", status_code=204)
def remove_pin(pin_id: PathId, session: SessionDep, principal: Operator, service: Fleet) -> Response:
    """Let a node or a pool follow rollouts again; a node takes its pool's revision."""
    store.unpin(session, pin_id, busy_pools(session), actor=principal.actor, now=service.clock())
    service.fleet.poke_after_commit(session)
    return Response(status_code=204)
