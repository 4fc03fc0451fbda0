"""Rollouts over HTTP: proposed, started and cancelled by people and by the tuner; carried on by the controller."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlmodel import Session

from controlplane.auth import Admin, Operator, Reader
from controlplane.auth.principal import check_scope
from controlplane.contract.bodies import slo
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import NotFound
from controlplane.db import SessionDep
from controlplane.db.ids import PathId
from controlplane.db.paging import Cursor, Limit, PoolFilter, page_of
from controlplane.fleet.opamp.hub import FleetParts
from controlplane.rollouts import store
from controlplane.rollouts.approval import hand_of
from controlplane.rollouts.judging.judging_plan import with_limits

router = APIRouter(prefix="/api/v1/rollouts", tags=["rollouts"])


@dataclass(frozen=True, kw_only=True)
class RolloutParts(FleetParts):
    """What these routes are served with. pool_limits: what alerts page for in a pool; alerts lie beside rollouts.
    two_for_emergency: an emergency waits for the approval of another admin."""

    pool_limits: Callable[[Session, str], list[slo.Limit]]
    two_for_emergency: bool = False


Rollouts = Annotated[RolloutParts, Depends(RolloutParts.given)]


@router.get("")
def list_rollouts(
    session: SessionDep,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    pool: PoolFilter = None,
    phase: Annotated[RolloutPhase | None, Query(description="only rollouts in this phase")] = None,
) -> Page[Rollout]:
    """Rollouts, newest first."""
    return page_of(store.listing(session, before_id=cursor, limit=limit + 1, pool=pool, phase=phase), limit)


@router.post("", status_code=201, responses=answers(NotFound))
def create_rollout(wanted: RolloutCreate, session: SessionDep, principal: Operator, service: Rollouts) -> Rollout:
    """Propose a rollout, and begin it unless `start` is false. An emergency needs scope admin and a reason, and where
    two are asked for waits for another admin's approval."""
    if wanted.emergency:
        check_scope(principal, Scope.ADMIN)
    wanted = with_limits(wanted, service.pool_limits(session, wanted.pool))
    hand, two = hand_of(session, principal), service.two_for_emergency
    made = store.create(session, wanted, actor=principal.actor, now=service.clock(), hand=hand, two=two)
    service.fleet.poke_after_commit(session)
    return made


@router.get("/{rollout_id}")
def read_rollout(rollout_id: PathId, session: SessionDep, _: Reader) -> Rollout:
    """One rollout with its phase, its verdict and the evidence."""
    return store.get(session, rollout_id)


@router.post("/{rollout_id}/start")
def start_rollout(rollout_id: PathId, session: SessionDep, principal: Operator, service: Rollouts) -> Rollout:
    """Begin a proposed rollout."""
    if store.get(session, rollout_id).spec.emergency:
        check_scope(principal, Scope.ADMIN)
    two = service.two_for_emergency
    started = store.start(session, rollout_id, actor=principal.actor, now=service.clock(), two=two)
    service.fleet.poke_after_commit(session)
    return started


@router.post("/{rollout_id}/approve")
def approve_rollout(rollout_id: PathId, session: SessionDep, principal: Admin, service: Rollouts) -> Rollout:
    """Begin an emergency that another has proposed; who proposed it is refused (403), by whichever token or session."""
    hand, two = hand_of(session, principal), service.two_for_emergency
    started = store.approve(session, rollout_id, hand=hand, actor=principal.actor, now=service.clock(), two=two)
    service.fleet.poke_after_commit(session)
    return started


@router.post("/{rollout_id}/cancel")
def cancel_rollout(rollout_id: PathId, session: SessionDep, principal: Operator, service: Rollouts) -> Rollout:
    """Before it began: cancelled. While it runs: rolled back."""
    cancelled = store.cancel(session, rollout_id, actor=principal.actor, now=service.clock())
    service.fleet.poke_after_commit(session)
    return cancelled
