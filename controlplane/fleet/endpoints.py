"""Nodes, configuration revisions and enrolment over HTTP; OpAMP beside them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from controlplane.auth import Admin, Enroller, Operator, Reader
from controlplane.auth.store import workload_key
from controlplane.contract.bodies.access import EnrolmentReply, EnrolmentRequest, Scope
from controlplane.contract.bodies.configs import Revision, RevisionCreate
from controlplane.contract.bodies.nodes import FleetColumns, FleetOutline, NodeView, TrialConfig
from controlplane.contract.bodies.pages import Page
from controlplane.contract.changes.label_selector import SelectorText, parsed
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import NodeIsLive, NotFound, Overloaded
from controlplane.db import SessionDep
from controlplane.db.paging import Cursor, Limit, PoolFilter
from controlplane.db.request_parts import Basis, address_of
from controlplane.fleet import fleet_outline, revisions, whole_fleet
from controlplane.fleet import store as fleet
from controlplane.fleet.enrolling import claims
from controlplane.fleet.opamp import opamp_endpoints
from controlplane.fleet.opamp.hub import Fleet

router = APIRouter()
router.include_router(opamp_endpoints.router)
api = APIRouter(prefix="/api/v1")

NodeCursor = Annotated[str | None, Query(max_length=128, description="`next` of the page before")]
NodeName = Annotated[str, Path(description="the node's service.instance.id")]


@api.get("/nodes", tags=["nodes"])
def list_nodes(
    session: SessionDep,
    _: Reader,
    limit: Limit = 100,
    cursor: NodeCursor = None,
    pool: PoolFilter = None,
    role: Annotated[
        str | None, Query(pattern="^(serving|trial)$", description="only `serving` or `trial` nodes")
    ] = None,
    name: Annotated[
        str | None, Query(max_length=128, description="only nodes whose name has this in it, in any case")
    ] = None,
    selector: Annotated[
        SelectorText,
        Query(description="only nodes with these labels, as in `region=eu-1, gpu in (H100, H200), !spot`"),
    ] = "",
) -> Page[NodeView]:
    """The fleet's nodes, by name."""
    by_label = parsed(selector)
    found = fleet.nodes(session, pool=pool, role=role, named=name, selector=by_label, after=cursor, limit=limit + 1)
    shown = found[:limit]
    return Page(items=shown, next=shown[-1].node if len(found) > limit else None)


@api.get("/fleet", tags=["nodes"])
def get_fleet(session: SessionDep, _: Reader, pool: PoolFilter = None) -> FleetColumns:
    """Every node at once, as columns: for overviews of thousands, where pages of whole nodes cost too much."""
    return whole_fleet.fleet_columns(session, pool)


@api.get("/fleet/outline", tags=["nodes"])
def get_fleet_outline(
    session: SessionDep,
    _: Reader,
    pool: Annotated[str | None, Query(description="whose nodes are named; the first pool's without it")] = None,
) -> FleetOutline:
    """What the fleet can be filtered by: its pools and revisions, and the nodes of one pool by name."""
    return fleet_outline.fleet_outline(session, pool)


@api.get("/nodes/{node}", tags=["nodes"])
def get_node(node: NodeName, session: SessionDep, _: Reader) -> NodeView:
    """One node: what it should run, what it truly runs, and how it is."""
    return fleet.node(session, node)


@api.put("/nodes/{node}/trial-config", tags=["nodes"])
def set_trial_config(
    node: NodeName, wanted: TrialConfig, session: SessionDep, principal: Operator, service: Fleet
) -> NodeView:
    """Give a trial node a configuration of its own. Knobs that are left out take their defaults."""
    changed = fleet.set_trial_config(session, node, wanted, actor=principal.actor, now=service.clock())
    service.fleet.poke_after_commit(session)
    return changed


@api.post("/nodes/{node}/cache-reset", tags=["nodes"], responses=answers(NotFound))
def reset_cache(node: NodeName, session: SessionDep, _: Operator, service: Fleet) -> NodeView:
    """Have a trial node empty its prefix cache. It is done once `effective.cache_reset` has come to
    `desired_cache_reset`; an `effective.cache_reset` of null says that the engine offers no way to.
    """
    asked = fleet.ask_cache_reset(session, node)
    service.fleet.poke_after_commit(session)
    return asked


@api.delete("/nodes/{node}", status_code=204, tags=["nodes"])
def remove_node(node: NodeName, session: SessionDep, principal: Admin, service: Fleet) -> None:
    """Forget a node and end its tokens; its engine keeps running as it is."""
    fleet.remove(session, node, actor=principal.actor, now=service.clock())
    service.fleet.poke_after_commit(session)


@api.get("/configs", tags=["configs"])
def list_configs(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[Revision]:
    """Configuration revisions, newest first."""
    found = revisions.revisions(session, before_number=cursor, limit=limit + 1)
    shown = found[:limit]
    return Page(items=shown, next=str(shown[-1].number) if len(found) > limit else None)


@api.post(
    "/configs",
    status_code=201,
    tags=["configs"],
    responses={
        200: {"model": Revision, "description": "a revision with equal knobs was there already"},
        **answers(NotFound),
    },
)
def create_config(
    wanted: RevisionCreate, response: Response, session: SessionDep, principal: Operator, service: Fleet
) -> Revision:
    """A new revision (201), or the existing one with equal knobs (200). It runs nowhere until a rollout says so."""
    made, new = revisions.find_or_create(session, wanted, actor=principal.actor, now=service.clock())
    if not new:
        response.status_code = 200
    return made


@api.get("/configs/{number}", tags=["configs"])
def get_config(
    number: Annotated[int, Path(description="the revision's number")], session: SessionDep, _: Reader
) -> Revision:
    """One configuration revision. Revisions never change."""
    return revisions.revision(session, number, field="number")


@api.post("/enrol", status_code=201, tags=["nodes"], responses=answers(NodeIsLive, Overloaded))
def enrol_node(wanted: EnrolmentRequest, principal: Enroller, service: Fleet, request: Request) -> EnrolmentReply:
    """Register a node and get its own token, shown only here. Enrolling again ends the node's older tokens.

    A node that is heard from is enrolled again by its own agent alone, which shows the node's token, or after an
    administrator has released its name; anyone else is answered 409.
    """
    if principal.scope is Scope.ENROL:
        service.node_certificates.check_node(wanted.node, request.scope)
    origin = address_of(request)
    wait_s = service.fleet.enrolments.wait_s((principal.token_id, origin))
    if wait_s:
        raise Overloaded("too many enrolments with this token from this address in a minute", wait_s)
    # A session of its own: what it says of a refused claim is committed before the answer refuses it.
    with service.database.session() as session:
        outcome = claims.enrol(session, wanted, principal, origin=origin, now=service.clock())
        key = "" if outcome.refused else workload_key(session, service.keyring)
    if outcome.refused is not None:
        raise outcome.refused
    service.fleet.poke()
    return EnrolmentReply(node=wanted.node, pool=wanted.pool, role=wanted.role, token=outcome.token, workload_key=key)


@api.post("/nodes/{node}/release", tags=["nodes"], responses=answers(NotFound))
def release_node(node: NodeName, session: SessionDep, principal: Admin, service: Basis) -> NodeView:
    """Let another agent take this node's name within the next ten minutes; until it does, the present one goes on."""
    return claims.release(session, node, actor=principal.actor, now=service.clock())


router.include_router(api)
