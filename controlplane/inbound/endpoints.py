"""Alerts of other systems and marks over HTTP; a token of scope `post` may send both, and nothing else."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from sqlmodel import Session

from controlplane.auth import Poster, Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.pages import Page
from controlplane.contract.channels.inbound import EventCreate, InboundAlert, InboundTaken, PostedEvent
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import BadRequest, TooLarge, Unsupported
from controlplane.db import SessionDep
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.db.request_parts import Basis
from controlplane.inbound import store
from controlplane.inbound.foreign_alerts import read
from controlplane.inbound.no_room import Refusals
from controlplane.inbound.taking_in import take_in

router = APIRouter(prefix="/api/v1", tags=["inbound"])

MOST_BYTES = 4 << 20
_ANY_OBJECT = {"content": {"application/json": {"schema": {"type": "object"}}}, "required": True}
AS_THEY_WRITE: dict[str, Any] = {"requestBody": _ANY_OBJECT}
MAY_FAIL = answers(BadRequest, TooLarge, Unsupported)


async def as_it_came(request: Request) -> bytes:
    """Others' formats have fields of their own: they are read by hand. Raises `Unsupported`, `TooLarge`."""
    stated = request.headers.get("Content-Type", "")
    if stated.partition(";")[0].strip().lower() != "application/json":
        raise Unsupported(f"Content-Type: wants application/json, got {stated[:100]!r}", field="Content-Type")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise TooLarge(f"at most {MOST_BYTES} bytes at once")
    return bytes(body)


Raw = Annotated[bytes, Depends(as_it_came)]


@dataclass(frozen=True, kw_only=True)
class InboundParts(AuthParts):
    """What these routes are served with."""

    inbound_refusals: Refusals = field(default_factory=Refusals)

    def take(self, session: Session, source: str, body: bytes, actor: str) -> InboundTaken:
        now = self.clock()
        told, refused = take_in(session, source, read(body, now), actor=actor, now=now)
        self.inbound_refusals.note(source, refused)
        return told


Inbound = Annotated[InboundParts, Depends(InboundParts.given)]


@router.post("/inbound/alertmanager", responses=MAY_FAIL, openapi_extra=AS_THEY_WRITE)
def post_alertmanager(principal: Poster, body: Raw, session: SessionDep, service: Inbound) -> InboundTaken:
    """Take alerts as Alertmanager's `webhook_config` posts them (version 4). One that fires joins the incident of its
    cause, or opens one; told twice, it is there once. New ones beyond what there is room for are `refused`."""
    return service.take(session, "alertmanager", body, principal.actor)


@router.post("/inbound/grafana", responses=MAY_FAIL, openapi_extra=AS_THEY_WRITE)
def post_grafana(principal: Poster, body: Raw, session: SessionDep, service: Inbound) -> InboundTaken:
    """Take alerts as Grafana's webhook contact point posts them, as those of Alertmanager."""
    return service.take(session, "grafana", body, principal.actor)


@router.get("/inbound/alerts")
def list_inbound_alerts(
    session: SessionDep,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    status: Annotated[Literal["firing", "resolved"] | None, Query(description="only those in this state")] = None,
) -> Page[InboundAlert]:
    """Alerts of other systems, newest first, as they told of them last."""
    return page_of(store.inbound_alerts(session, before_id=cursor, limit=limit + 1, status=status), limit)


@router.post("/events", status_code=201)
def post_event(wanted: EventCreate, session: SessionDep, principal: Poster, basis: Basis) -> PostedEvent:
    """Tell of a deed of your own, such as a deploy: the ledger has it, and charts show it as a mark."""
    return store.post_event(session, wanted, actor=principal.actor, now=basis.clock())


@router.get("/events")
def list_events(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[PostedEvent]:
    """Marks, the one that came in last first."""
    return page_of(store.events(session, before_id=cursor, limit=limit + 1), limit)
