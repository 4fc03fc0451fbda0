"""Signing in and out of the dashboard: with a bearer token in a form, or by a link with a one-time code.

Guarantee: no page of another site signs a browser in, and no address holds a token.
"""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.contract.errors import Forbidden, Unauthenticated
from web.refusals import local
from web.rendering import rendered
from web.sessions import api_of, sign_in, sign_out, signed_client_of
from web.threads import on_own_threads

router = APIRouter()

FROM_ELSEWHERE = {"cross-site", "same-site"}
"""Of Sec-Fetch-Site: another site's page leads here."""


@router.get("/login")
@on_own_threads
def login(request: Request, code: str | None = None, next: str = "/") -> Response:
    """The sign-in form; with ?code= (the link that the command line prints) it signs in at once.

    A link on another site's page might sign its reader in as somebody else: then a button asks first.
    """
    if code is None or request.headers.get("Sec-Fetch-Site") in FROM_ELSEWHERE:
        return _form(request, next, code=code)
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
        return _form(request, next, error=error)


@router.post("/logout")
@on_own_threads
def logout(request: Request, form: Annotated[str, Form()] = "") -> Response:
    """End the session on the server, and have the browser forget it."""
    response = RedirectResponse("/login", status_code=303)
    signed_client_of(request, form).end_session()
    sign_out(request, response)
    return response


def _enter(request: Request, code: str, next: str) -> Response:
    try:
        secret = api_of(request).start_session(code)
    except Unauthenticated as error:
        return _form(request, next, error=error)
    response = RedirectResponse(local(next), status_code=303)
    sign_in(request, response, secret)
    return response


def _form(
    request: Request, next: str, *, code: str | None = None, error: Unauthenticated | Forbidden | None = None
) -> Response:
    status, message = (200, None) if error is None else (error.status, error.message)
    response = rendered(request, "login.html", status=status, next=local(next), code=code, error=message)
    response.headers["Referrer-Policy"] = "same-origin"  # With none, the form's Origin would be "null".
    return response
