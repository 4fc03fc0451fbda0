"""FastAPI dependencies that let a request in: `principal: Operator` is all an endpoint has to say."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from controlplane.auth import store
from controlplane.contract.access import IMPLIED, Scope
from controlplane.contract.errors import Forbidden, Unauthenticated
from controlplane.db.database import Database


@dataclass(frozen=True)
class Principal:
    """Who speaks: the token's name (the ledger's actor), its scope, and its node where it is an agent's."""

    name: str
    scope: Scope
    token_id: int
    node: str | None = None


def authenticate(database: Database, authorization: str | None) -> Principal:
    """The principal behind an Authorization header. Raises `Unauthenticated`."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("send 'Authorization: Bearer TOKEN'", field="Authorization")
    with database.read_session() as session:
        found = store.find(session, token.strip())
    if found is None:
        raise Unauthenticated("this token is unknown or revoked", field="Authorization")
    return Principal(found.name, found.scope, found.id, found.node)


def check_scope(principal: Principal, wanted: Scope) -> None:
    """Raises `Forbidden` when the principal's scope does not imply `wanted`."""
    if wanted not in IMPLIED[principal.scope]:
        raise Forbidden(
            f"this needs scope {wanted.value}, the token {principal.name!r} has {principal.scope.value}",
            field="Authorization",
            needed=wanted.value,
        )


def _needs(scope: Scope) -> Callable[[Request], Principal]:
    def dependency(request: Request) -> Principal:
        principal = authenticate(request.app.state.database, request.headers.get("Authorization"))
        check_scope(principal, scope)
        return principal

    return dependency


Reader = Annotated[Principal, Depends(_needs(Scope.READ))]
Operator = Annotated[Principal, Depends(_needs(Scope.OPERATE))]
Admin = Annotated[Principal, Depends(_needs(Scope.ADMIN))]
AgentAccess = Annotated[Principal, Depends(_needs(Scope.AGENT))]
Enroller = Annotated[Principal, Depends(_needs(Scope.ENROL))]
