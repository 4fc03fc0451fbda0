"""Incidents and routes over HTTP."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Response

from controlplane.auth import Operator, Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.pages import Page
from controlplane.contract.on_call.incidents import (
    Incident,
    IncidentAcknowledge,
    IncidentCause,
    IncidentDetail,
    IncidentMerge,
    IncidentNote,
    IncidentNoteCreate,
    IncidentResolve,
    IncidentSplit,
    IncidentState,
    Route,
    RouteCreate,
)
from controlplane.db import SessionDep
from controlplane.db.ids import PathId, QueryId
from controlplane.db.paging import Cursor, Limit, PoolFilter, page_of
from controlplane.incidents import store
from controlplane.incidents.acknowledging import acknowledge
from controlplane.incidents.checks import check_route
from controlplane.incidents.confirming import confirm
from controlplane.incidents.post_mortem import post_mortem

router = APIRouter(prefix="/api/v1", tags=["incidents"])


@dataclass(frozen=True, kw_only=True)
class IncidentParts(AuthParts):
    """What these routes are served with. public_url: the base of links that go out."""

    public_url: str


Incidents = Annotated[IncidentParts, Depends(IncidentParts.given)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=128,
        pattern=r"^[\x21-\x7e]+$",
        description="of one note; sent twice with it, the note is there once",
    ),
]
_MARKDOWN: dict[int | str, dict[str, Any]] = {
    200: {"description": "the post-mortem", "content": {"text/markdown": {"schema": {"type": "string"}}}}
}


@router.get("/incidents")
def list_incidents(
    session: SessionDep,
    _: Reader,
    service: Incidents,
    limit: Limit = 100,
    cursor: Cursor = None,
    state: Annotated[IncidentState | None, Query(description="only incidents in this state")] = None,
    pool: PoolFilter = None,
    open: Annotated[bool, Query(description="only those that are open or acknowledged")] = False,
    alert_id: QueryId = None,
) -> Page[Incident]:
    """Incidents, newest first; with `alert_id` the one that the alert is of."""
    found = store.incidents(
        session,
        before_id=cursor,
        limit=limit + 1,
        now=service.clock(),
        state=state,
        pool=pool,
        is_open=open,
        alert_id=alert_id,
    )
    return page_of(found, limit)


@router.get("/incidents/{incident_id}")
def get_incident(incident_id: PathId, session: SessionDep, _: Reader, service: Incidents) -> IncidentDetail:
    """One incident with its alerts, the causes they name, its notes and its timeline."""
    return store.detail(session, incident_id, service.clock())


@router.get("/incidents/{incident_id}/post-mortem", response_class=Response, responses=_MARKDOWN)
def get_post_mortem(incident_id: PathId, session: SessionDep, _: Reader, service: Incidents) -> Response:
    """All of it as a Markdown document, with headings for what only people know."""
    link = f"{service.public_url}/incidents/{incident_id}"
    text = post_mortem(store.detail(session, incident_id, service.clock()), link)
    return Response(text, media_type="text/markdown; charset=utf-8")


@router.post("/incidents/{incident_id}/acknowledge")
def acknowledge_incident(
    incident_id: PathId, wanted: IncidentAcknowledge, session: SessionDep, principal: Operator, service: Incidents
) -> Incident:
    """Say that you look at it. The first who does stays named, and who was told of its alerts hears it; again, nothing
    more happens."""
    now, link = service.clock(), service.public_url
    acknowledge(session, incident_id, actor=principal.actor, now=now, public_url=link, comment=wanted.comment)
    return store.incident(session, incident_id, service.clock())


@router.post("/incidents/{incident_id}/notes", status_code=201)
def add_note(
    incident_id: PathId,
    wanted: IncidentNoteCreate,
    session: SessionDep,
    principal: Operator,
    service: Incidents,
    key: Key = None,
) -> IncidentNote:
    """Write something down, whatever the incident's state."""
    return store.add_note(session, incident_id, wanted.text, actor=principal.actor, now=service.clock(), key=key)


@router.post("/incidents/{incident_id}/merge")
def merge_incident(
    incident_id: PathId, wanted: IncidentMerge, session: SessionDep, principal: Operator, service: Incidents
) -> Incident:
    """Take in another incident's alerts and notes: it was of the same cause."""
    store.merge(session, incident_id, wanted.incident_id, actor=principal.actor, now=service.clock())
    return store.incident(session, incident_id, service.clock())


@router.post("/incidents/{incident_id}/split")
def split_incident(
    incident_id: PathId, wanted: IncidentSplit, session: SessionDep, principal: Operator, service: Incidents
) -> Incident:
    """Make another incident of some of its alerts: they are of another cause. The answer is that incident."""
    made = store.split(session, incident_id, wanted, actor=principal.actor, now=service.clock())
    return store.incident(session, made, service.clock())


@router.post("/incidents/{incident_id}/cause")
def confirm_cause(
    incident_id: PathId, wanted: IncidentCause, session: SessionDep, principal: Operator, service: Incidents
) -> Incident:
    """Say what its cause was, whatever its state: the last word counts, and the order of causes learns from it."""
    confirm(session, incident_id, wanted, actor=principal.actor, now=service.clock())
    return store.incident(session, incident_id, service.clock())


@router.post("/incidents/{incident_id}/resolve")
def resolve_incident(
    incident_id: PathId, wanted: IncidentResolve, session: SessionDep, principal: Operator, service: Incidents
) -> Incident:
    """Close it, whatever its alerts do. By itself it is resolved when none of them has fired for five minutes."""
    store.resolve(session, incident_id, wanted.reason, actor=principal.actor, now=service.clock())
    return store.incident(session, incident_id, service.clock())


@router.get("/routes")
def list_routes(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[Route]:
    """Routes, newest first. Of those that match an alert the one counts that stands first by its `position`."""
    return page_of(store.routes(session, before_id=cursor, limit=limit + 1), limit)


@router.post("/routes", status_code=201)
def create_route(wanted: RouteCreate, session: SessionDep, principal: Operator, service: Incidents) -> Route:
    """Say who looks after the alerts with these labels, and which of them may be one incident."""
    check_route(wanted)
    return store.create_route(session, wanted, actor=principal.actor, now=service.clock())


@router.put("/routes/{route_id}")
def update_route(
    route_id: PathId, wanted: RouteCreate, session: SessionDep, principal: Operator, service: Incidents
) -> Route:
    """Replace a route. Incidents that are open keep their owner."""
    check_route(wanted)
    return store.update_route(session, route_id, wanted, actor=principal.actor, now=service.clock())


@router.delete("/routes/{route_id}", status_code=204)
def delete_route(route_id: PathId, session: SessionDep, principal: Operator, service: Incidents) -> None:
    """Remove a route."""
    store.delete_route(session, route_id, actor=principal.actor, now=service.clock())
