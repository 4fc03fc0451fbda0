"""Signing a browser in over HTTP: a token makes a one-time code, the code starts a session, the session ends itself."""

from fastapi import APIRouter, Request

from controlplane.auth import browser_sessions
from controlplane.auth.browser_address import SeenFrom, browser_address
from controlplane.auth.guard import Holder, TokenReader
from controlplane.auth.sign_in_parts import Sign
from controlplane.contract.bodies.access import Scope, SessionStart, SessionStarted, SignInCode
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import Forbidden, NotFound, Unauthenticated, Unavailable
from controlplane.db import SessionDep

router = APIRouter(prefix="/api/v1", tags=["tokens"])


@router.post("/sign-in-codes", status_code=201)
def create_sign_in_code(session: SessionDep, principal: TokenReader, service: Sign) -> SignInCode:
    """Make a code that signs one browser in as this token, once, within a minute: `/login?code=CODE`."""
    if not service.token_sign_in:
        raise Forbidden("browsers are not signed in with a token here, people sign in", field="token_sign_in")
    if principal.scope is Scope.ADMIN and service.issuer is not None and service.issuer.registration.admins is not None:
        raise Forbidden(
            "an admin's token signs no browser in here: admins sign in at the issuer, with a second factor. Commands "
            "take the token, and one of scope operate or read signs in",
            field="oidc_admin_amr",
        )
    assert principal.token_id is not None  # The route wants a token itself.
    return browser_sessions.make_code(session, principal.token_id, service.clock())


@router.post("/sessions", status_code=201, responses=answers(Unauthenticated, Unavailable))
def start_session(wanted: SessionStart, service: Sign, request: Request) -> SessionStarted:
    """Use up a sign-in code; the answer's secret is the session's bearer token. Needs no token: the code is one."""
    started = None
    # Nobody without a code takes the database's write lock.
    if browser_sessions.has_code_form(wanted.code):
        with service.database.session() as session:
            seen = SeenFrom(service.keyring, browser_address(request, service.voucher))
            started = browser_sessions.start(session, wanted.code, service.clock(), seen)
    if started is None:
        raise Unauthenticated("this sign-in code is unknown, was used, or has expired", field="code")
    return started


@router.delete("/sessions/self", status_code=204, responses=answers(NotFound))
def end_session(session: SessionDep, principal: Holder) -> None:
    """End the session that asks; it is refused from now on, by every replica."""
    if principal.session_id is None:
        raise NotFound("a token has no session to end", field="Authorization")
    browser_sessions.end(session, principal.session_id)
