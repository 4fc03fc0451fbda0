"""Kept workloads over HTTP: traffic under a name, for studies to replay."""

from typing import Annotated

from fastapi import APIRouter, Path

from controlplane.auth import Operator, Reader
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.workload import WORKLOAD_NAME, KeptTraffic, KeptWorkload, WorkloadCreate
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import Conflict, NotFound
from controlplane.db import SessionDep
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.studies.endpoints import Studies
from controlplane.studies.workloads import workload_store
from controlplane.studies.workloads.workload_checks import checked_workload

router = APIRouter(prefix="/api/v1/workloads", tags=["studies"])

WorkloadName = Annotated[str, Path(pattern=WORKLOAD_NAME, description="the workload's name")]


@router.get("")
def list_workloads(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[KeptWorkload]:
    """Kept workloads, newest first, without their requests."""
    return page_of(workload_store.listing(session, before_id=cursor, limit=limit + 1), limit)


@router.post("", status_code=201, responses=answers(Conflict))
def add_workload(wanted: WorkloadCreate, session: SessionDep, principal: Operator, service: Studies) -> KeptWorkload:
    """Keep traffic under a name, at most 50,000 requests; 409 where the name is taken, or 100 are kept."""
    found = checked_workload(wanted)
    return workload_store.add(session, wanted, found, actor=principal.actor, now=service.clock())


@router.get("/{name}", responses=answers(NotFound))
def read_workload(name: WorkloadName, session: SessionDep, _: Reader) -> KeptWorkload:
    """What a kept workload is like."""
    return workload_store.get(session, name)


@router.get("/{name}/traffic", responses=answers(NotFound))
def read_traffic(name: WorkloadName, session: SessionDep, _: Reader) -> KeptTraffic:
    """Its requests, packed as they were added."""
    return workload_store.traffic(session, name)


@router.delete("/{name}", status_code=204, responses=answers(NotFound))
def remove_workload(name: WorkloadName, session: SessionDep, principal: Operator, service: Studies) -> None:
    """Forget a workload. Studies that have begun keep their traffic; one that waits for it will fail."""
    workload_store.remove(session, name, actor=principal.actor, now=service.clock())
