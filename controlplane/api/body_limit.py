"""A limit on request bodies, before anything reads them.

Guarantee: a body over the limit is answered with 413 and never held whole in memory. Telemetry has limits of its
own, larger and after decompression.
"""

from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.api.error_handlers import error_response
from controlplane.contract.errors import BadRequest, TooLarge

LIMIT_BYTES = 1 << 20
EXEMPT = ("/v1/metrics", "/v1/traces", "/v1/history")


class BodyLimit:
    """ASGI middleware that reads a body (at most `limit_bytes`) before it calls the application."""

    def __init__(self, app: ASGIApp, limit_bytes: int = LIMIT_BYTES, exempt: Sequence[str] = EXEMPT) -> None:
        self._app = app
        self._limit_bytes = limit_bytes
        self._exempt = frozenset(exempt)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        length = headers.get(b"content-length")
        if (
            scope["type"] != "http"
            or scope["path"] in self._exempt
            or (length is None and b"transfer-encoding" not in headers)
        ):
            await self._app(scope, receive, send)
            return
        if length is not None and not length.isdigit():
            refusal = error_response(BadRequest("Content-Length: wants a number", field="Content-Length"))
            await refusal(scope, receive, send)
            return
        body = bytearray()
        too_large = length is not None and int(length) > self._limit_bytes
        more = not too_large
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return  # The client has gone.
            body += message.get("body", b"")
            too_large = len(body) > self._limit_bytes
            more = message.get("more_body", False) and not too_large
        if too_large:
            refusal = error_response(TooLarge(f"body: at most {self._limit_bytes} bytes here", field="body"))
            await refusal(scope, receive, send)
            return
        await self._app(scope, _replay(bytes(body), receive), send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once, and then whatever comes (the disconnect)."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
