"""The outermost ASGI layer: starts each request's clock and gives it an id; and the error bodies.

Guarantee: a request's clock starts at the first ASGI call; `X-Request-Id` is honoured and echoed on every answer;
every error has the contract's body, an unforeseen one included.
"""

import logging
import math
import uuid
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agents.engine.request.timing import RequestClock
from agents.engine.server.error_shape import openai_body
from controlplane.contract.errors import BadRequest, NotFound, TailwrightError, TooLarge, Unsupported

REQUEST_ID_HEADER = "X-Request-Id"
TENANT_HEADER = "X-Tailwright-Tenant"
CLOCK = "tailwright.clock"
REQUEST_ID = "tailwright.request_id"

_OPENAI_ROUTES = "/v1/"
_MOST_BODY_BYTES = 32 * 2**20
_LONGEST_ID = 256
_CLIENT_CLOSED_REQUEST = 499
_log = logging.getLogger(__name__)


class RequestEdge:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._header = REQUEST_ID_HEADER.lower().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[CLOCK] = RequestClock()
        given = next((value for name, value in scope["headers"] if name == self._header), b"")
        request_id = given if 0 < len(given) <= _LONGEST_ID else uuid.uuid4().hex.encode()
        scope[REQUEST_ID] = request_id.decode("latin-1")

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (self._header, request_id)]
            await send(message)

        await self._app(scope, receive, send_with_id)


async def read_json(request: Request) -> Any:
    """The body as JSON. Raises `Unsupported` when it is not called so, `BadRequest` (body) when it is none, `TooLarge`
    beyond 32 MiB.

    A page of another origin may send plain text without being asked for leave, but no JSON (the Fetch standard's
    "CORS-safelisted" types): so the name of the type is part of the defence.
    """
    named = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if named != "application/json":
        raise Unsupported(f"Content-Type: wants application/json, got {named or 'none'!r}", field="Content-Type")
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _MOST_BODY_BYTES:
            raise TooLarge(f"the body is larger than {_MOST_BODY_BYTES} bytes", field="body", limit=_MOST_BODY_BYTES)
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}", field="body") from error


def answer_json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(body), status, headers, media_type="application/json")


def answer_error(error: TailwrightError, path: str) -> Response:
    """The contract's error body, with OpenAI's fields on its routes; Retry-After where it is known."""
    retry_after_s = error.detail.get("retry_after_s")
    retry = None if retry_after_s is None else {"Retry-After": str(math.ceil(retry_after_s))}
    body = openai_body(error) if path.startswith(_OPENAI_ROUTES) else error.body()
    return answer_json(body, error.status, retry)


def add_error_handlers(app: FastAPI) -> None:
    """Every failure in the contract's form."""

    @app.exception_handler(TailwrightError)
    async def known(request: Request, error: TailwrightError) -> Response:
        return answer_error(error, request.url.path)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        if error.status_code == NotFound.status:
            unknown = NotFound(f"{request.method} {request.url.path}: no such address", path=request.url.path)
            return answer_error(unknown, request.url.path)
        body = {"code": "http_error", "message": str(error.detail), "detail": {"path": request.url.path}}
        return answer_json({"error": body}, error.status_code, dict(error.headers or {}))

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=_CLIENT_CLOSED_REQUEST)  # It left before its request was read: nobody is told.

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        _log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        return answer_error(TailwrightError("the engine's server failed; its log says why"), request.url.path)
