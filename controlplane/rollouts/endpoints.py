"""Rollouts over HTTP: proposed, started and cancelled by people and by the tuner; carried on by the controller."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse
from sqlmodel import Session

from controlplane.auth import Admin, Operator, Principal, Reader
from controlplane.auth.principal import check_scope
from controlplane.contract.bodies import slo
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutForecast, RolloutPhase, RolloutProposal
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import NotFound, PreconditionFailed
from controlplane.contract.reports.declared_knobs import parse_declared
from controlplane.db import SessionDep
from controlplane.db.ids import PathId
from controlplane.db.paging import Cursor, Limit, PoolFilter, page_of
from controlplane.fleet import revisions
from controlplane.fleet.declared_by_nodes import declared_for
from controlplane.fleet.opamp.hub import FleetParts
from controlplane.rollouts import steering, store
from controlplane.rollouts.approval import hand_of
from controlplane.rollouts.careful_request import Careful, CarefulRequest, etag_of, shown
from controlplane.rollouts.checks import known_revision
from controlplane.rollouts.judging.judging_plan import with_limits
from controlplane.rollouts.reach.reach_endpoints import ReachParts

router = APIRouter(prefix="/api/v1/rollouts", tags=["rollouts"])


@dataclass(frozen=True, kw_only=True)
class RolloutParts(FleetParts, ReachParts):
    """What these routes are served with. pool_limits: what alerts page for in a pool; alerts lie beside rollouts.
    two_for_emergency: an emergency waits for the approval of another admin."""

    pool_limits: Callable[[Session, str], list[slo.Limit]]
    two_for_emergency: bool = False


Rollouts = Annotated[RolloutParts, Depends(RolloutParts.given)]
_FORECAST = {"model": RolloutForecast, "description": "with `dry_run=true`: what would happen"}
_CHANGED = answers(PreconditionFailed)


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


@router.post("", status_code=201, response_model=Rollout, responses={**answers(NotFound), 200: _FORECAST})
def create_rollout(
    wanted: RolloutProposal,
    session: SessionDep,
    principal: Operator,
    service: Rollouts,
    careful: Careful,
    response: Response,
) -> Rollout | Response:
    """Propose a rollout, and begin it unless `start` is false or it waits for an approval. An emergency needs scope
    admin and a reason, and where two are asked for waits for another admin's approval."""
    if wanted.emergency:
        check_scope(principal, Scope.ADMIN)
    how, limits = _how(session, principal, service), service.pool_limits(session, wanted.pool)
    says = with_limits(wanted, limits).model_dump_json()

    def make() -> Rollout:
        spec = with_limits(_made(session, wanted, principal.actor, how["now"]), limits)
        service.reach.check(session, spec, how["now"])
        return store.create(session, spec, **how)

    radius_of = service.reach.told(session, how["now"])
    made = careful.answer(session, principal.holder, how["now"], make, radius_of, says=says)
    if isinstance(made, RolloutForecast):
        return JSONResponse(made.model_dump(mode="json"))
    service.fleet.poke_after_commit(session)
    response.headers["ETag"] = etag_of(made)
    return made


@router.get("/{rollout_id}")
def read_rollout(rollout_id: PathId, session: SessionDep, _: Reader, response: Response) -> Rollout:
    """One rollout with its phase, its verdict, the evidence and what comes next; its `ETag` is for `If-Match`."""
    found = store.get(session, rollout_id)
    response.headers["ETag"] = etag_of(found)
    return found


@router.post("/{rollout_id}/start", responses=_CHANGED)
def start_rollout(
    rollout_id: PathId,
    session: SessionDep,
    principal: Operator,
    service: Rollouts,
    careful: Careful,
    response: Response,
) -> Rollout | RolloutForecast:
    """Begin a proposed rollout."""
    spec = store.get(session, rollout_id).spec
    if spec.emergency:
        check_scope(principal, Scope.ADMIN)
    how = _how(session, principal, service, "hand")

    def begin() -> Rollout:
        service.reach.check(session, spec, how["now"])
        return store.start(session, rollout_id, **how)

    return _answered(begin, rollout_id, session, principal, service, careful, response, now=how["now"])


@router.post("/{rollout_id}/approve", responses=_CHANGED)
def approve_rollout(
    rollout_id: PathId,
    session: SessionDep,
    principal: Admin,
    service: Rollouts,
    careful: Careful,
    response: Response,
) -> Rollout | RolloutForecast:
    """Begin a rollout that waits for an approval; who proposed it is refused (403), by whichever token or session."""
    how = _how(session, principal, service)

    def begin() -> Rollout:
        service.reach.check(session, store.get(session, rollout_id).spec, how["now"])
        return store.approve(session, rollout_id, **how)

    return _answered(begin, rollout_id, session, principal, service, careful, response, now=how["now"])


@router.post("/{rollout_id}/cancel", responses=_CHANGED)
def cancel_rollout(
    rollout_id: PathId,
    session: SessionDep,
    principal: Operator,
    service: Rollouts,
    careful: Careful,
    response: Response,
) -> Rollout | RolloutForecast:
    """Before it began: cancelled. While it runs: rolled back."""
    return _steered(steering.cancel, rollout_id, session, principal, service, careful, response)


@router.post("/{rollout_id}/abort", responses=_CHANGED)
def abort_rollout(
    rollout_id: PathId,
    session: SessionDep,
    principal: Operator,
    service: Rollouts,
    careful: Careful,
    response: Response,
) -> Rollout | RolloutForecast:
    """Roll back what is under way, in whatever phase it is; 409 for what has not begun."""
    return _steered(steering.abort, rollout_id, session, principal, service, careful, response)


@router.post("/{rollout_id}/pause", responses=_CHANGED)
def pause_rollout(
    rollout_id: PathId,
    session: SessionDep,
    principal: Operator,
    service: Rollouts,
    careful: Careful,
    response: Response,
    reason: Annotated[str, Query(max_length=500, description="why, for people")] = "",
) -> Rollout | RolloutForecast:
    """Tell no more nodes until somebody resumes. Those that were told are watched on: harm takes them back."""

    def pause(session: Session, rollout_id: int, *, actor: str, now: datetime) -> Rollout:
        return steering.pause(session, rollout_id, actor=actor, now=now, why=reason)

    return _steered(pause, rollout_id, session, principal, service, careful, response, says=reason)


@router.post("/{rollout_id}/resume", responses=_CHANGED)
def resume_rollout(
    rollout_id: PathId,
    session: SessionDep,
    principal: Operator,
    service: Rollouts,
    careful: Careful,
    response: Response,
) -> Rollout | RolloutForecast:
    """Go on where it was paused, with that phase's time anew; what was undecided is judged on."""
    return _steered(steering.resume, rollout_id, session, principal, service, careful, response)


@router.post("/{rollout_id}/retry", responses=_CHANGED)
def retry_rollout(
    rollout_id: PathId,
    session: SessionDep,
    principal: Operator,
    service: Rollouts,
    careful: Careful,
    response: Response,
) -> Rollout | RolloutForecast:
    """Make another rollout of the same, where one has gone back, failed or was cancelled. The answer is the new one."""
    if store.get(session, rollout_id).spec.emergency:
        check_scope(principal, Scope.ADMIN)
    return _followed(steering.retry, rollout_id, session, principal, service, careful, response)


@router.post("/{rollout_id}/revert", responses=_CHANGED)
def revert_rollout(
    rollout_id: PathId,
    session: SessionDep,
    principal: Operator,
    service: Rollouts,
    careful: Careful,
    response: Response,
) -> Rollout | RolloutForecast:
    """Take back what was promoted: a judged rollout of the whole revision before it. The answer is the new one."""
    return _followed(steering.revert, rollout_id, session, principal, service, careful, response)


def _made(session: Session, wanted: RolloutProposal, actor: str, now: datetime) -> RolloutCreate:
    """The rollout of a revision that is there: of one with the proposal's knobs, where it has any."""
    if not wanted.knobs:
        return wanted.of(wanted.revision)
    base = known_revision(session, wanted.revision).knobs
    declared = declared_for(session, wanted.knobs, pool=wanted.pool)
    config = parse_declared(wanted.knobs, declared, base=base, prefix="knobs.")
    revision, _ = revisions.keep(session, config, note=wanted.reason, actor=actor, now=now)
    return wanted.of(revision.number)


def _how(session: Session, principal: Principal, service: RolloutParts, *without: str) -> dict[str, Any]:
    how = {
        "actor": principal.actor,
        "now": service.clock(),
        "hand": hand_of(session, principal),
        "two": service.two_for_emergency,
        "validates": True,
    }
    return {name: value for name, value in how.items() if name not in without}


def _answered(
    act: Callable[[], Rollout],
    rollout_id: int,
    session: Session,
    principal: Principal,
    service: RolloutParts,
    careful: CarefulRequest,
    response: Response,
    *,
    now: datetime,
    says: str = "",
) -> Rollout | RolloutForecast:
    """The act done once and of what was read, or its dry run; the fleet hears of it once it is committed."""
    radius_of = service.reach.told(session, now)
    done = careful.answer(session, principal.holder, now, act, radius_of, of=rollout_id, says=says)
    service.fleet.poke_after_commit(session)
    return shown(done, response)


def _steered(
    do: Callable[..., Rollout],
    rollout_id: int,
    session: Session,
    principal: Principal,
    service: RolloutParts,
    careful: CarefulRequest,
    response: Response,
    *,
    says: str = "",
) -> Rollout | RolloutForecast:
    now = service.clock()

    def steer() -> Rollout:
        return do(session, rollout_id, actor=principal.actor, now=now)

    return _answered(steer, rollout_id, session, principal, service, careful, response, now=now, says=says)


def _followed(
    do: Callable[..., Rollout],
    rollout_id: int,
    session: Session,
    principal: Principal,
    service: RolloutParts,
    careful: CarefulRequest,
    response: Response,
) -> Rollout | RolloutForecast:
    how = _how(session, principal, service)

    def follow() -> Rollout:
        made = do(session, rollout_id, **how)
        service.reach.check(session, made.spec, how["now"])
        return made

    return _answered(follow, rollout_id, session, principal, service, careful, response, now=how["now"])
