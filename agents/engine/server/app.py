"""The engine's HTTP surface: OpenAI-compatible endpoints, configuration, events, metrics.

Guarantee: the server holds no state of its own beyond the requests in flight; whoever watches it (an agent, a scraper)
may come, go or die without a request noticing.
"""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import Response

from agents.engine.core.engine import Engine
from agents.engine.options import EngineOptions
from agents.engine.server.counted_refusals import Refusals
from agents.engine.server.event_feed import EventFeed
from agents.engine.server.openai_api import ChatRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest, parse
from agents.engine.server.prometheus import EngineMetrics
from agents.engine.server.request_edge import RequestEdge, add_error_handlers, answer_json, read_json
from agents.engine.server.request_intake import Intake
from controlplane.contract.errors import BadRequest, Unavailable, nearest
from controlplane.contract.knobs import EngineConfig, parse_config

_SWITCH_INTERVAL_S = 0.0005
_GRACEFUL_STOP_S = 30
_SEQUENCE_DIGITS = 18


def serve(options: EngineOptions) -> None:
    """Load the model and serve until SIGTERM or SIGINT."""
    # The stepping thread and the event loop share the interpreter; at the default of 5 ms one could stall a whole step.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    engine = Engine(options)
    # What is loaded by now stays: without this, full collections would walk all of it again and again, and each of
    # them stops every request for as long.
    gc.collect()
    gc.freeze()
    settings = uvicorn.Config(
        create_app(engine),
        host=options.host,
        port=options.port,
        access_log=False,
        timeout_graceful_shutdown=_GRACEFUL_STOP_S,
    )
    _Server(settings, engine).run()


class _Server(uvicorn.Server):
    """Ends the followers of the event log when asked to stop; requests get time to finish."""

    def __init__(self, settings: uvicorn.Config, engine: Engine) -> None:
        super().__init__(settings)
        self._engine = engine

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._engine.log.close()
        super().handle_exit(sig, frame)


def create_app(engine: Engine) -> FastAPI:
    """The ASGI application; it starts the engine's thread and stops it at its end."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        await asyncio.to_thread(engine.stop)

    app = FastAPI(title="Tailwright engine", lifespan=lifespan)
    app.add_middleware(RequestEdge)
    add_error_handlers(app)
    intake = app.state.intake = Intake(engine)
    _add_generation(app, intake)
    _add_tokenizer(app, intake)
    _add_configuration(app, engine)
    _add_observation(app, engine, intake.refusals)
    return app


def _add_generation(app: FastAPI, intake: Intake) -> None:
    created = int(time.time())

    @app.post("/v1/completions", openapi_extra=_body_schema(CompletionRequest))
    async def completions(request: Request) -> Response:
        return intake.completion(parse(CompletionRequest, await read_json(request)), request)

    @app.post("/v1/chat/completions", openapi_extra=_body_schema(ChatRequest))
    async def chat_completions(request: Request) -> Response:
        return intake.chat(parse(ChatRequest, await read_json(request)), request)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        model = {
            "id": intake.model_name,
            "object": "model",
            "created": created,
            "owned_by": "tailwright",
            "max_model_len": intake.engine.steps.max_model_len,
        }
        return {"object": "list", "data": [model]}


def _add_tokenizer(app: FastAPI, intake: Intake) -> None:
    @app.post("/tokenize", openapi_extra=_body_schema(TokenizeRequest))
    async def tokenize(request: Request) -> Response:
        asked = parse(TokenizeRequest, await read_json(request))
        intake.check_model(asked.model)
        if (asked.prompt is None) == (asked.messages is None):
            raise BadRequest("prompt: give either prompt or messages", field="prompt")
        if asked.messages is not None:
            tokens = intake.chat_tokens(asked.messages)
        else:
            tokens = intake.codec.encode(asked.prompt or "", asked.add_special_tokens is not False)
        return answer_json({"tokens": tokens, "count": len(tokens), "max_model_len": intake.engine.steps.max_model_len})

    @app.post("/detokenize", openapi_extra=_body_schema(DetokenizeRequest))
    async def detokenize(request: Request) -> Response:
        asked = parse(DetokenizeRequest, await read_json(request))
        intake.check_model(asked.model)
        if any(token >= 2**32 for token in asked.tokens):
            raise BadRequest("tokens: a token id is outside the vocabulary", field="tokens")
        return answer_json({"prompt": intake.codec.decode(asked.tokens, skip_special_tokens=False)})


def _add_configuration(app: FastAPI, engine: Engine) -> None:
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


def _add_observation(app: FastAPI, engine: Engine, refusals: Refusals) -> None:
    metrics = EngineMetrics(engine, refusals.counts)

    @app.get("/health")
    async def health() -> Response:
        if not engine.is_serving:
            raise Unavailable("the engine's thread is not running")
        return answer_json({"status": "ok"})

    @app.get("/metrics")
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/events")
    async def events(request: Request) -> Response:
        after = request.query_params.get("after", "0")
        if not after.isdecimal() or len(after) > _SEQUENCE_DIGITS:
            raise BadRequest(f"after: {after[:40]!r} is no sequence number", field="after")
        return EventFeed(engine.log, engine.options.model_name, request.query_params.get("boot"), int(after))


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


def _body_schema(model: Any) -> dict[str, Any]:
    """For /docs: the endpoints read their bodies themselves, so that the clock sees it."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}
