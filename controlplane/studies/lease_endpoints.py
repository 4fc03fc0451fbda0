"""What the workers of one study share, over HTTP: its plan, the trial nodes they hold, the trials they take."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from controlplane.auth import Operator, Reader
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.studies import Trial, TrialReport
from controlplane.contract.errors import Conflict
from controlplane.contract.planning.study_checks import check_finite
from controlplane.contract.planning.trial_leases import NodeWanted, StudyPlan, TrialLease, TrialWanted
from controlplane.contract.row_id import MAX_ID
from controlplane.db import SessionDep
from controlplane.db.ids import PathId
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.studies import lease_store
from controlplane.studies.endpoints import Studies
from controlplane.studies.lease_store import Late

router = APIRouter(prefix="/api/v1/studies/{study_id:int}", tags=["studies"])

Token = Annotated[int, Path(ge=1, le=MAX_ID, description="the lease's token")]


@router.put("/plan")
def keep_plan(
    study_id: PathId,
    plan: StudyPlan,
    worker: Annotated[str, Query(min_length=1, max_length=128, description="the name it claimed the study by")],
    session: SessionDep,
    _: Operator,
) -> StudyPlan:
    """Keep what all runs of the study have in common; where there is a plan, that one stays and is answered."""
    check_finite(plan, "")
    return lease_store.keep_plan(session, study_id, worker, plan)


@router.get("/plan")
def read_plan(study_id: PathId, session: SessionDep, _: Reader) -> StudyPlan:
    """What all runs of the study have in common."""
    return lease_store.plan_of(session, study_id)


@router.post("/leases", status_code=201)
def take_node(study_id: PathId, wanted: NodeWanted, session: SessionDep, _: Operator, service: Studies) -> TrialLease:
    """Hold a trial node for the study; 409 while another holds it."""
    return lease_store.take_node(session, study_id, wanted, service.clock())


@router.post("/leases/{token:int}/renew")
def renew_lease(study_id: PathId, token: Token, session: SessionDep, _: Operator, service: Studies) -> TrialLease:
    """Hold the node for another while; 409 when the lease has ended."""
    return lease_store.renew(session, study_id, token, service.clock())


@router.post("/leases/{token:int}/release")
def release_lease(study_id: PathId, token: Token, session: SessionDep, _: Operator, service: Studies) -> TrialLease:
    """Give the node back."""
    return lease_store.release(session, study_id, token, service.clock())


@router.post("/leases/{token:int}/trial")
def take_trial(
    study_id: PathId, token: Token, wanted: TrialWanted, session: SessionDep, _: Operator, service: Studies
) -> Trial:
    """Measure a trial on the node that is held: the next one, or one whose worker was lost; 409: it is another's."""
    check_finite(wanted, "")
    return lease_store.take_trial(session, study_id, token, wanted, service.clock())


@router.get("/trials")
def list_trials(
    study_id: PathId,
    session: SessionDep,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    samples: Annotated[bool, Query(description="with the single values of the winner's pairs")] = False,
) -> Page[Trial]:
    """The study's trials, those under way too, newest first."""
    return page_of(lease_store.trials(session, study_id, before_id=cursor, limit=limit + 1, samples=samples), limit)


@router.post("/trials", status_code=201)
def report_trial(
    study_id: PathId,
    report: TrialReport,
    token: Annotated[int, Query(ge=1, le=MAX_ID, description="the lease that it was taken under")],
    session: SessionDep,
    _: Operator,
    service: Studies,
) -> Trial:
    """Keep what a trial came to; reporting it again changes nothing. 409 when its lease has ended."""
    check_finite(report, "")
    kept = lease_store.report_trial(session, study_id, token, report, service.clock())
    if isinstance(kept, Late):
        service.late_reports.note(kept)
        raise Conflict(kept.message, field="token", reason=kept.why.value)
    return kept
