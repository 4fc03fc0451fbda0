"""Studies over HTTP: people create and cancel them, workers claim, report and finish them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from sqlmodel import Session

from controlplane.auth import Operator, Principal, Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.studies import (
    Study,
    StudyClaim,
    StudyCreate,
    StudyFinish,
    StudyHeartbeat,
    StudyState,
)
from controlplane.contract.planning.study_checks import check_finite
from controlplane.db import SessionDep
from controlplane.db.ids import PathId
from controlplane.db.keyed_answers import Keyed
from controlplane.db.paging import Cursor, Limit, PoolFilter, page_of
from controlplane.studies import store
from controlplane.studies.checks import check_study
from controlplane.studies.meters import LateReports

router = APIRouter(prefix="/api/v1/studies", tags=["studies"])


@dataclass(frozen=True, kw_only=True)
class StudyParts(AuthParts):
    """What these routes are served with. not_at_rest: by pool what its studies wait for the end of, now.
    may_tune: raises where this principal may not have a pool tuned in production; rollouts lie beside studies."""

    not_at_rest: Callable[[Session, datetime], Mapping[str, str]]
    late_reports: LateReports
    may_tune: Callable[[Session, str, Principal], None]


Studies = Annotated[StudyParts, Depends(StudyParts.given)]


@router.get("")
def list_studies(
    session: SessionDep,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    pool: PoolFilter = None,
    state: Annotated[StudyState | None, Query(description="only studies in this state")] = None,
) -> Page[Study]:
    """Studies, newest first."""
    return page_of(store.listing(session, before_id=cursor, limit=limit + 1, pool=pool, state=state), limit)


@router.post("", status_code=201)
def create_study(
    wanted: StudyCreate, session: SessionDep, principal: Operator, service: Studies, keyed: Keyed
) -> Study:
    """Queue a study; sent again with the same `Idempotency-Key`, it is the same one."""
    now = service.clock()

    def make() -> Study:
        check_study(session, wanted)
        if wanted.online is not None:
            service.may_tune(session, wanted.pool, principal)
        return store.create(session, wanted, actor=principal.actor, now=now)

    return keyed.answer(session, principal.holder, now, make, Study, says=wanted.model_dump_json())


@router.post("/claim", response_model=Study, responses={204: {"description": "nothing is queued"}})
def claim_study(wanted: StudyClaim, session: SessionDep, _: Operator, service: Studies) -> Study | Response:
    """Take the oldest queued study of a pool without a rollout under way, or an alert that a take-back is just ending,
    whose evaluation the worker has; 204 when there is none."""
    now = service.clock()
    busy = service.not_at_rest(session, now)
    found = store.claim(session, wanted.worker, now, evaluations=wanted.evaluations, busy=busy)
    return found or Response(status_code=204)


@router.get("/{study_id:int}")
def read_study(study_id: PathId, session: SessionDep, _: Reader) -> Study:
    """One study with its progress and, when it has finished, its result."""
    return store.get(session, study_id)


@router.post("/{study_id:int}/heartbeat")
def heartbeat(study_id: PathId, beat: StudyHeartbeat, session: SessionDep, _: Operator, service: Studies) -> Study:
    """Extend the lease and say how far the study is."""
    check_finite(beat, "")
    return store.heartbeat(session, study_id, beat, service.clock())


@router.post("/{study_id:int}/finish")
def finish_study(study_id: PathId, outcome: StudyFinish, session: SessionDep, _: Operator, service: Studies) -> Study:
    """End the study with its result or its error."""
    check_finite(outcome, "")
    return store.finish(session, study_id, outcome, service.clock())


@router.post("/{study_id:int}/cancel")
def cancel_study(study_id: PathId, session: SessionDep, principal: Operator, service: Studies) -> Study:
    """End a study that waits or runs; its worker notices with its next heartbeat. A step in production goes back."""
    return store.cancel(session, study_id, actor=principal.actor, now=service.clock())
