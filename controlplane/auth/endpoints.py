"""Tokens over HTTP: make, list, revoke (scope admin), and who am I (any token)."""

from fastapi import APIRouter

from controlplane.auth import store
from controlplane.auth.guard import Admin, Holder, TokenAdmin
from controlplane.contract.bodies.access import TokenCreate, TokenCreated, TokenView
from controlplane.contract.bodies.pages import Page
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import NotFound, Unauthenticated
from controlplane.db import SessionDep
from controlplane.db.ids import PathId
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.db.request_parts import Basis

router = APIRouter(prefix="/api/v1/tokens", tags=["tokens"])


@router.get("/self", responses=answers(NotFound))
def whoami(session: SessionDep, principal: Holder) -> TokenView:
    """The token of this request, or that began its session."""
    if principal.token_id is None:
        raise NotFound("a person's session has no token; GET /api/v1/sessions/self tells of it", field="Authorization")
    found = store.get(session, principal.token_id)
    if found is None:
        raise Unauthenticated("this token is gone", field="Authorization")
    return found


@router.get("")
def list_tokens(session: SessionDep, _: Admin, limit: Limit = 100, cursor: Cursor = None) -> Page[TokenView]:
    """Tokens without their secrets, newest first; the revoked ones too."""
    return page_of(store.listing(session, before_id=cursor, limit=limit + 1), limit)


@router.post("", status_code=201)
def create_token(wanted: TokenCreate, session: SessionDep, principal: TokenAdmin, service: Basis) -> TokenCreated:
    """Make a token; the answer is the only place its secret is ever shown."""
    return store.create(session, wanted, actor=principal.actor, now=service.clock())


@router.delete("/{token_id:int}", status_code=204)
def revoke_token(token_id: PathId, session: SessionDep, principal: Admin, service: Basis) -> None:
    """End a token. Other replicas refuse it within two seconds."""
    store.revoke(session, token_id, actor=principal.actor, now=service.clock())
