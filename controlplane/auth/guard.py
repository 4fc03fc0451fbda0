"""FastAPI dependencies that let a request in: `principal: Operator` is all an endpoint has to say.

They are coroutines: FastAPI hands other dependencies to a worker thread each, which costs more than the look-up.
"""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from controlplane.auth import browser_sessions
from controlplane.auth.principal import Principal, check_scope
from controlplane.auth.token_cache import AuthParts
from controlplane.auth.watch.security_log import is_known, remember_speaker
from controlplane.auth.watch.sensitive_reads import SENSITIVE, sensitive_route
from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import Forbidden, TailwrightError
from controlplane.db.request_parts import address_of


class Needs:
    """The dependency: a known token, of this scope (None: of any). The API's document reads `scope` from it.

    With `itself` a browser's session does not do in its place: what outlives a session is not made by one. With
    `in_address` the token may stand in the address (https://any:TOKEN@host), for who can send no header of its own.
    """

    def __init__(self, scope: Scope | None, *, itself: bool = False, in_address: bool = False) -> None:
        self.scope = scope
        self._itself = itself
        self._in_address = in_address

    async def __call__(self, request: Request) -> Principal:
        parts = AuthParts.of(request.app)
        authorization = request.headers.get("Authorization", "")
        principal = await principal_of(parts, request, from_address(authorization) if self._in_address else None)
        if self._itself and principal.session_id is not None:
            raise Forbidden("this needs a token itself, not a browser's session", field="Authorization")
        parts.token_uses.note(principal.token_id, principal.node)
        if self.scope is not None:
            check_scope(principal, self.scope)
        route = getattr(request.scope.get("route"), "path", "")
        if route in SENSITIVE and request.method == "GET":
            parts.security_log.read(principal, address_of(request), f"GET {route}")
        return principal


def from_address(authorization: str) -> str:
    """The header as a bearer's, where it is the one that clients make of an address with a user and a password (RFC
    7617): the password is the token. Any other as it is."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return authorization
    try:
        _, _, token = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return authorization
    return f"Bearer {token}"


async def principal_of(parts: AuthParts, request: Request, authorization: str | None = None) -> Principal:
    """Who asks, by a token or a browser's session, of this header or of the request's. Raises `Unauthenticated`,
    `Forbidden`, `Unavailable`."""
    if authorization is None:
        authorization = request.headers.get("Authorization", "")
    secret = browser_sessions.secret_in(authorization)
    if secret is not None:
        look = browser_sessions.authenticate_session
        principal = await asyncio.to_thread(look, parts.database, secret, parts.clock())
        remember_speaker(request.scope, principal)
        parts.security_log.let_in(principal, address_of(request))
        return principal
    return await holder_of(parts, request, authorization)


async def identify(parts: AuthParts, request: Request) -> None:
    """Have the log know who sent what is refused before any guard has asked."""
    if not is_known(request) and "Authorization" in request.headers:
        with suppress(TailwrightError):  # Then it was nobody.
            await principal_of(parts, request)


async def holder_of(parts: AuthParts, connection: HTTPConnection, authorization: str) -> Principal:
    """Whose token it is, shown over this connection. Raises as `principal_of`."""
    principal = parts.tokens.known(authorization) or await parts.tokens.find(authorization)
    remember_speaker(connection.scope, principal)
    parts.node_certificates.check(principal, connection.scope)
    parts.security_log.let_in(principal, address_of(connection))
    return principal


def scopes_of(parts: AuthParts, secrets: Sequence[str]) -> dict[str, Scope | None]:
    """What the sessions of the dashboard's pages may do, by their secrets; None where one has ended. Raises
    `Unavailable`."""
    found = browser_sessions.principals_of(parts.database, secrets, parts.clock())
    for principal in found.values():
        if principal is None:
            parts.turned_away.note_session()
        else:
            parts.security_log.let_in(principal, "dashboard")
    parts.page_readers.put(found)
    return {secret: None if principal is None else principal.scope for secret, principal in found.items()}


def read_on_page(parts: AuthParts, secret: str, path: str) -> None:
    """A page has shown a session what the API had answered another a moment before."""
    route = sensitive_route(path)
    if route is not None:
        parts.security_log.read(parts.page_readers.get(secret), "dashboard", f"GET {route}")


Holder = Annotated[Principal, Depends(Needs(None))]
Reader = Annotated[Principal, Depends(Needs(Scope.READ))]
Operator = Annotated[Principal, Depends(Needs(Scope.OPERATE))]
Admin = Annotated[Principal, Depends(Needs(Scope.ADMIN))]
AgentAccess = Annotated[Principal, Depends(Needs(Scope.AGENT, itself=True))]
TokenReader = Annotated[Principal, Depends(Needs(Scope.READ, itself=True))]
TokenAdmin = Annotated[Principal, Depends(Needs(Scope.ADMIN, itself=True))]
HookReader = Annotated[Principal, Depends(Needs(Scope.READ, itself=True, in_address=True))]
Poster = Annotated[Principal, Depends(Needs(Scope.POST))]
Enroller = Annotated[Principal, Depends(Needs(Scope.ENROL, itself=True))]
