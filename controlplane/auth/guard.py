"""FastAPI dependencies that let a request in: `principal: Operator` is all an endpoint has to say.

They are coroutines: FastAPI hands other dependencies to a worker thread each, which costs more than the look-up.
"""

import asyncio
from typing import Annotated

from fastapi import Depends, Request

from controlplane.auth import browser_sessions
from controlplane.auth.principal import Principal, check_scope
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import Forbidden


class Needs:
    """The dependency: a known token, of this scope (None: of any). The API's document reads `scope` from it.

    With `itself` a browser's session does not do in its place: what outlives a session is not made by one.
    """

    def __init__(self, scope: Scope | None, *, itself: bool = False) -> None:
        self.scope = scope
        self._itself = itself

    async def __call__(self, request: Request) -> Principal:
        parts = AuthParts.of(request.app)
        principal = await principal_of(parts, request)
        if self._itself and principal.session_id is not None:
            raise Forbidden("this needs a token itself, not a browser's session", field="Authorization")
        parts.token_uses.note(principal.token_id, principal.node)
        if self.scope is not None:
            check_scope(principal, self.scope)
        return principal


async def principal_of(parts: AuthParts, request: Request) -> Principal:
    """Who asks, by a token or a browser's session. Raises `Unauthenticated`, `Forbidden`, `Unavailable`."""
    authorization = request.headers.get("Authorization", "")
    secret = browser_sessions.secret_in(authorization)
    if secret is not None:
        look = browser_sessions.authenticate_session
        return await asyncio.to_thread(look, parts.database, secret, parts.clock())
    principal = parts.tokens.known(authorization) or await parts.tokens.find(authorization)
    parts.node_certificates.check(principal, request.scope)
    return principal


Holder = Annotated[Principal, Depends(Needs(None))]
Reader = Annotated[Principal, Depends(Needs(Scope.READ))]
Operator = Annotated[Principal, Depends(Needs(Scope.OPERATE))]
Admin = Annotated[Principal, Depends(Needs(Scope.ADMIN))]
AgentAccess = Annotated[Principal, Depends(Needs(Scope.AGENT, itself=True))]
TokenReader = Annotated[Principal, Depends(Needs(Scope.READ, itself=True))]
TokenAdmin = Annotated[Principal, Depends(Needs(Scope.ADMIN, itself=True))]
Poster = Annotated[Principal, Depends(Needs(Scope.POST))]
Enroller = Annotated[Principal, Depends(Needs(Scope.ENROL, itself=True))]
