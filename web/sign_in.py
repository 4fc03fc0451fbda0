"""Signing in and out of the dashboard with a bearer token."""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.contract.errors import Forbidden, Unauthenticated
from web.refusals import local
from web.rendering import rendered
from web.sessions import clients_of, sign_in, sign_out
from web.threads import on_own_threads

router = APIRouter()


@router.get("/login")
@on_own_threads
def login(request: Request, token: str | None = None, next: str = "/") -> Response:
    """The sign-in form; with ?token= (the link the command line prints) it signs in at once."""
    if token is None:
        return rendered(request, "login.html", next=local(next), error=None)
    return _enter(request, token, next)


@router.post("/login")
@on_own_threads
def login_form(request: Request, token: Annotated[str, Form()], next: Annotated[str, Form()] = "/") -> Response:
    return _enter(request, token.strip(), next)


@router.post("/logout")
@on_own_threads
def logout(request: Request) -> Response:
    response = RedirectResponse("/login", status_code=303)
    sign_out(response)
    return response


def _enter(request: Request, token: str, next: str) -> Response:
    try:
        scope = clients_of(request).of(token).whoami().scope
        if scope not in {"read", "operate", "admin"}:
            raise Forbidden(f"a token of scope {scope.value} cannot read the dashboard")
    except (Unauthenticated, Forbidden) as error:
        return rendered(request, "login.html", status=error.status, next=local(next), error=error.message)
    response = RedirectResponse(local(next), status_code=303)
    sign_in(response, token, secure=request.url.scheme == "https")
    return response
