"""The engine's control surface: configuration, prefix cache, event log. Never on the port that clients use.

It is served on a Unix socket that only its owner can open, or on a port of its own that wants a token.
"""

import asyncio
import hmac
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agents.engine.core.engine import Engine
from agents.engine.server.event_feed import EventFeed
from agents.engine.server.request_edge import RequestEdge, add_error_handlers, answer_error, answer_json, read_json
from controlplane.contract.bearer import bearer_of
from controlplane.contract.errors import BadRequest, BadSettings, Unauthenticated, nearest
from controlplane.contract.knobs import EngineConfig, parse_config

SHORTEST_TOKEN = 16
_SEQUENCE_DIGITS = 18


def create_control_app(engine: Engine, token: str | None = None) -> FastAPI:
    """The ASGI application. Without a token whoever can open the socket may use it."""
    app = FastAPI(title="Tailwright engine control")
    app.add_middleware(RequestEdge)
    if token is not None:
        app.add_middleware(_TokenGate, token=token)
    add_error_handlers(app)

    @app.get("/config")
    async def get_config() -> Response:
        return answer_json(engine.effective.body())

    @app.put("/config")
    async def put_config(request: Request) -> Response:
        config, revision = _parse_config_body(await read_json(request), engine.effective.config)
        effective = await asyncio.wrap_future(engine.set_config(config, revision))
        return answer_json(effective.body())

    @app.post("/cache/reset")
    async def reset_cache() -> Response:
        return answer_json({"blocks": await asyncio.wrap_future(engine.reset_cache())})

    @app.get("/events")
    async def events(request: Request) -> Response:
        after = request.query_params.get("after", "0")
        if not after.isdecimal() or len(after) > _SEQUENCE_DIGITS:
            raise BadRequest(f"after: {after[:40]!r} is no sequence number", field="after")
        return EventFeed(engine.log, engine.options.model_name, request.query_params.get("boot"), int(after))

    return app


def read_token(path: Path) -> str:
    """The token in a file. Raises BadSettings when there is none, or one that is too short to be a secret."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"control_token_file: {path} cannot be read: {error}", field="control_token_file") from error
    if len(token) < SHORTEST_TOKEN:
        message = f"control_token_file: {path} holds {len(token)} characters, a token has at least {SHORTEST_TOKEN}"
        raise BadSettings(message, field="control_token_file")
    return token


class _TokenGate:
    """ASGI middleware: `Authorization: Bearer TOKEN`, or 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not hmac.compare_digest(bearer_of(scope["headers"]), self._token):
            refusal = answer_error(Unauthenticated("the control port wants its token as Authorization: Bearer"), "/")
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _parse_config_body(body: Any, base: EngineConfig) -> tuple[EngineConfig, int | None]:
    """{"knobs": {...}, "revision": n}: knobs left out keep their value; without a revision, none is in force."""
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object", field="body")
    if unknown := [name for name in body if name not in ("knobs", "revision")]:
        raise BadRequest(f"{unknown[0]}: no such field, {nearest(unknown[0], ['knobs', 'revision'])}", field=unknown[0])
    values, revision = body.get("knobs"), body.get("revision")
    if not isinstance(values, dict):
        raise BadRequest("knobs: wants an object of knob names and values", field="knobs")
    if revision is not None and (isinstance(revision, bool) or not isinstance(revision, int) or revision < 0):
        raise BadRequest(f"revision: wants a whole number of at least 0, got {revision!r}", field="revision")
    return parse_config(values, base=base, prefix="knobs."), revision
