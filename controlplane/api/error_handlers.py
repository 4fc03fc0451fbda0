"""One place where an exception becomes an answer: {"error": {"code", "message", "detail"}}.

Guarantee: bad input is never a 500; a 500 tells nothing of the service's inside (the log has it).
"""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import iter_route_contexts
from sqlalchemy.exc import DataError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from controlplane.auth.guard import identify
from controlplane.auth.token_cache import AuthParts
from controlplane.auth.turned_away import INPUT
from controlplane.contract.errors import BadRequest, Conflict, Overloaded, TailwrightError, Unavailable
from controlplane.contract.mistake_text import mistake_text, place_of
from controlplane.db.fault import SAYING, named

logger = logging.getLogger(__name__)

SECRET = frozenset({"url", "secret", "callback_secret", "token", "code", "password"})
"""Fields whose value no error repeats."""
_CODES = {400: "bad_request", 401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "method_not_allowed"}


def install(app: FastAPI) -> None:
    """Make every error of this application answer in the contract's form.

    Another application may take the handlers over, as the dashboard does: what they count, they count in this one.
    """
    app.add_exception_handler(TailwrightError, partial(_ours, app))
    app.add_exception_handler(RequestValidationError, partial(_validation, app))
    app.add_exception_handler(HTTPException, partial(_http, app))
    app.add_exception_handler(IntegrityError, _integrity)
    app.add_exception_handler(DataError, partial(_data, app))
    app.add_exception_handler(OperationalError, _database)
    app.add_exception_handler(PoolTimeout, _database)
    app.add_exception_handler(Exception, _unexpected)


def error_response(error: TailwrightError) -> Response:
    """The answer for one of our own errors."""
    headers = {}
    if isinstance(error, Overloaded):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _json(error.body(), error.status, headers)


def _json(body: dict[str, Any], status: int, headers: Mapping[str, str] | None = None) -> Response:
    # ASCII, since a message may quote input that has no UTF-8 form (a lone surrogate).
    return Response(json.dumps(body, default=str), status, headers, media_type="application/json")


async def _ours(service: FastAPI, request: Request, error: Exception) -> Response:
    assert isinstance(error, TailwrightError)
    parts = AuthParts.of(service)
    if error.status in INPUT:
        await identify(parts, request)
    parts.turned_away.note(request, error)
    return error_response(error)


async def _validation(service: FastAPI, request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [_problem(item) for item in error.errors()]
    parts = AuthParts.of(service)
    await identify(parts, request)
    parts.turned_away.note_input(request, [problem["field"] for problem in problems])
    message = "; ".join(f"{problem['field']}: {problem['message']}" for problem in problems[:3])
    if len(problems) > 3:
        message += f"; and {len(problems) - 3} more"
    return error_response(BadRequest(message, field=problems[0]["field"], errors=problems))


def _problem(item: dict[str, Any]) -> dict[str, str]:
    field = ".".join(place_of(item))
    if item["type"] == "json_invalid":
        reason = (item.get("ctx") or {}).get("error", "")
        return {"field": "body", "message": f"not JSON at character {item['loc'][-1]} ({reason})"}
    return {"field": field, "message": _mend(item)}


def _mend(item: dict[str, Any]) -> str:
    """What was wrong, and what would be right."""
    if item["type"] == "missing":
        return "is required, and missing"
    got = "" if item["loc"][-1] in SECRET else f", got {_shown(item.get('input'))}"
    wanted = mistake_text(item)
    return f"{wanted[:1].lower()}{wanted[1:]}{got}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


async def _http(service: FastAPI, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message, headers = str(error.detail), error.headers
    if error.status_code == 400:
        # FastAPI's only 400 of its own: a body that its JSON parser gave up on, without saying where.
        return await _ours(service, request, BadRequest("body: not JSON in UTF-8, or nested too deeply", field="body"))
    if error.status_code == 404:
        message = "no such URL; /docs lists what there is"
    elif error.status_code == 405:
        AuthParts.of(service).turned_away.note_method(request)
        allowed = ", ".join(_allowed_methods(request.app.routes, request.scope["path"]))
        message, headers = f"this method is not allowed here; allowed: {allowed}", {"Allow": allowed}
    code = _CODES.get(error.status_code, "http_error")
    body = {"error": {"code": code, "message": message, "detail": {}}}
    return _json(body, error.status_code, headers)


def _integrity(request: Request, error: Exception) -> Response:
    # Two requests changed the same thing at once; one of them has won.
    logger.warning("%s %s met a concurrent change: %s", request.method, request.url.path, error)
    return error_response(Conflict("somebody else changed the same thing at the same time; look and try again"))


async def _data(service: FastAPI, request: Request, error: Exception) -> Response:
    logger.warning("%s %s has a value that the database refuses: %s", request.method, request.url.path, error)
    return await _ours(
        service, request, BadRequest("a value cannot be stored: a number out of range, or text with NUL in it")
    )


def _database(request: Request, error: Exception) -> Response:
    logger.error("%s %s: the database did not answer", request.method, request.url.path, exc_info=error)
    known = named(error)
    why = known if known in SAYING else "the database is not available"
    return error_response(Unavailable(f"{why}; nothing was changed, try again"))


def _unexpected(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    # uvicorn closes the connection after an exception: say so, or the client's next request on it fails.
    body = TailwrightError("an internal error; the service's log has its trace").body()
    return _json(body, TailwrightError.status, {"Connection": "close"})


def _allowed_methods(routes: Sequence[BaseRoute], path: str) -> list[str]:
    """For the `Allow` header (RFC 9110, 10.2.1): the methods of all routes of a path, not only of the first.

    What is mounted (the dashboard's static files) names none: it takes what files take.
    """
    found: set[str] = set()
    for route in iter_route_contexts(routes):
        pattern = getattr(route, "path_regex", None)
        if pattern is not None and pattern.match(path):
            found |= route.methods or set()
    return sorted(found or {"GET", "HEAD"})
