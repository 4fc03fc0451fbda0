"""Signing in and out of the dashboard with a bearer token."""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.contract.errors import Forbidden, Unauthenticated
from web.handling import handled
from web.refusals import local
from web.rendering import rendered
from web.sessions import Clients, sign_in, sign_out

router = APIRouter(include_in_schema=False)


@router.get("/login")
@handled
def login(request: Request, token: str | None = None, next: str = "/") -> Response:
    """The sign-in form; with ?token= (the link the command line prints) it signs in at once."""
    if token is None:
        return rendered(request, "login.html", next=local(next), error=None)
    return _enter(request, token, next)


@router.post("/login")
@handled
def login_form(request: Request, token: Annotated[str, Form()], next: Annotated[str, Form()] = "/") -> Response:
    return _enter(request, token.strip(), next)


@router.post("/logout")
@handled
def logout(request: Request) -> Response:
    response = RedirectResponse("/login", status_code=303)
    sign_out(response)
    return response


def _enter(request: Request, token: str, next: str) -> Response:
    clients: Clients = request.app.state.web_clients
    try:
        scope = clients.of(token).whoami().scope
        if scope not in {"read", "operate", "admin"}:
            raise Forbidden(f"a token of scope {scope.value} cannot read the dashboard")
    except (Unauthenticated, Forbidden) as error:
        return rendered(request, "login.html", status=error.status, next=local(next), error=error.message)
    response = RedirectResponse(local(next), status_code=303)
    sign_in(response, token, secure=request.url.scheme == "https")
    return response
