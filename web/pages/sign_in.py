"""Signing in and out of the dashboard: with a bearer token in a form, or by a link with a one-time code.

Guarantee: no page of another site signs a browser in, and no address holds a token.
"""

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.contract.errors import Forbidden, TailwrightError, Unauthenticated
from web.access.sessions import api_of, sign_in, sign_out, signed_client_of
from web.access.threads import on_own_threads
from web.frame.rendering import rendered
from web.pages.refusals import local

router = APIRouter()

FORGET = '"cache", "cookies", "storage"'
"""What a browser is told to forget on signing out (Clear-Site-Data); it does so under https, and on loopback."""
FROM_ELSEWHERE = {"cross-site", "same-site"}
"""Of Sec-Fetch-Site: another site's page leads here."""


@router.get("/login")
@on_own_threads
def login(request: Request, code: str | None = None, next: str = "/", left: bool = False) -> Response:
    """The sign-in form; with ?code= (the link that the command line prints) it signs in at once.

    A link on another site's page might sign its reader in as somebody else: then a button asks first. With ?left=true
    it offers to sign out of the issuer, too.
    """
    if code is None or request.headers.get("Sec-Fetch-Site") in FROM_ELSEWHERE:
        return sign_in_form(request, next, code=code, left=left)
    return _enter(request, code, next)


@router.post("/login")
@on_own_threads
def login_form(
    request: Request,
    token: Annotated[str, Form()] = "",
    code: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",
) -> Response:
    # There is no session yet whose token a form could carry; a page that hides its origin is none of ours.
    if request.headers.get("Origin") == "null":
        api_of(request).count_forged()
        raise Forbidden("a page that does not say its origin cannot sign in", field="Origin")
    try:
        return _enter(request, code or api_of(request).code_for(token.strip()), next)
    except (Unauthenticated, Forbidden) as error:
        return sign_in_form(request, next, error=error)


@router.post("/logout")
@on_own_threads
def logout(request: Request, form: Annotated[str, Form()] = "") -> Response:
    """End the session on the server, and have the browser forget it."""
    signed_client_of(request, form).end_session()
    leads_on = api_of(request).of_browser(request).sign_in_ways().end_session_url is not None
    response = RedirectResponse("/login?left=true" if leads_on else "/login", status_code=303)
    response.headers["Clear-Site-Data"] = FORGET
    sign_out(request, response)
    return response


def _enter(request: Request, code: str, next: str) -> Response:
    try:
        secret = api_of(request).start_session(request, code)
    except Unauthenticated as error:
        return sign_in_form(request, next, error=error)
    response = RedirectResponse(local(next), status_code=303)
    sign_in(request, response, secret)
    return response


def sign_in_form(
    request: Request, next: str, *, code: str | None = None, error: TailwrightError | None = None, left: bool = False
) -> Response:
    """The page that signs in, by the ways that there are; with why it was not done."""
    status, message = (200, None) if error is None else (error.status, error.message)
    ways = api_of(request).of_browser(request).sign_in_ways()
    issuer = None if ways.issuer is None else urlsplit(ways.issuer).netloc
    context = {"next": local(next), "code": code, "error": message, "ways": ways, "issuer": issuer, "left": left}
    response = rendered(request, "login.html", status=status, **context)
    response.headers["Referrer-Policy"] = "same-origin"  # With none, the form's Origin would be "null".
    return response
