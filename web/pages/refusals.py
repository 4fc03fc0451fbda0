"""What the dashboard answers when it has nothing to show: an error page, a sentence for a script, or the sign-in form.

Guarantee: an error page names the thing that was asked for and links to the list it would stand in. Addresses of the
API keep the API's own answers.
"""

from collections.abc import Awaitable, Callable
from typing import cast
from urllib.parse import quote, urlsplit

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException

from controlplane.contract.errors import NotFound, TailwrightError, Unauthenticated, Unavailable
from web.access.sessions import api_of, sign_out
from web.access.threads import on_own_threads
from web.frame.page import Page
from web.frame.rendering import rendered, templates

FOR_SCRIPTS = ("/live/", "/parts/", "/assets/")
"""What pages and their scripts ask for."""

NOT_PAGES = ("/api/", "/v1/", *FOR_SCRIPTS)


@on_own_threads
def refused(request: Request, error: Exception) -> Response:
    """The answer to a request that met one of the contract's errors, or an API that does not answer. Whoever brings a
    token is no browser."""
    if not isinstance(error, TailwrightError):
        error = Unavailable(f"the service's API does not answer: {type(error).__name__}")
    api_of(request).tell_refused(request, error)
    if request.url.path.startswith(FOR_SCRIPTS) or "authorization" in request.headers:
        return JSONResponse(error.body(), status_code=error.status)
    if isinstance(error, Unauthenticated):
        response: Response = RedirectResponse(f"/login?next={quote(_came_for(request), safe='/')}", status_code=303)
        sign_out(request, response)
        return response
    return rendered(request, "error.html", status=error.status, error=error, list=_list_of(request.url.path))


def _list_of(path: str) -> Page | None:
    """The page of the navigation that lists such things; None for addresses of no such page."""
    first = "/" + path.split("/")[1].replace("nodes", "fleet")
    listed = cast(list[Page], templates.env.globals["navigation"])
    return next((page for page in listed if page.path == first), None)


def local(target: str) -> str:
    """`target` if it is a path on this site, with its query; else "/": no open redirect.

    Browsers read a backslash as a slash and leave out tabs and line ends, so none of these may stand in it.
    """
    try:
        parts = urlsplit(target)
    except ValueError:
        return "/"
    odd = "\\" in target or any(ord(sign) <= 0x20 or ord(sign) == 0x7F for sign in target)
    away = parts.scheme or parts.netloc or not target.startswith("/") or target.startswith("//")
    return "/" if odd or away else target


def install(dashboard: FastAPI, service: FastAPI) -> None:
    """Answer the contract's errors and a browser's 404 in the dashboard's layout, all others as `service` does."""
    before = cast(Callable[[Request, Exception], Awaitable[Response]], service.exception_handlers[HTTPException])

    async def not_found(request: Request, error: Exception) -> Response:
        path, wants = request.url.path, request.headers.get("accept", "")
        if path.startswith(NOT_PAGES) or request.method not in {"GET", "HEAD"} or "text/html" not in wants:
            return await before(request, error)
        return await refused(request, NotFound(f"no page {path[:200]}"))

    ours = {TailwrightError: refused, httpx.TransportError: refused, 404: not_found}
    dashboard.exception_handlers |= service.exception_handlers | ours


def _came_for(request: Request) -> str:
    """Where a browser wants to be after signing in: a form that was sent leads back to its own page."""
    path = request.url.path
    if request.method != "GET":
        return path.rsplit("/", 1)[0] or "/"
    return f"{path}?{request.url.query}" if request.url.query else path
