"""The engine's HTTP surface for clients: OpenAI-compatible endpoints, health, metrics (control: control_surface.py).

Guarantee: the server holds no state of its own beyond the requests in flight; whoever watches it (an agent, a scraper)
may come, go or die without a request noticing.
"""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from agents.engine.core.engine import Engine
from agents.engine.options import EngineOptions
from agents.engine.server.both_servers import open_listeners, serve_both
from agents.engine.server.client_gate import ApiKeys, ClientGate
from agents.engine.server.control_surface import create_control_app, read_token
from agents.engine.server.counted_refusals import Refusals
from agents.engine.server.openai_api import ChatRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest, parse
from agents.engine.server.prometheus import EngineMetrics
from agents.engine.server.request_edge import RequestEdge, add_error_handlers, answer_json, read_json
from agents.engine.server.request_intake import Intake
from controlplane.contract.errors import BadRequest, Unavailable
from controlplane.contract.host_names import names_of

_SWITCH_INTERVAL_S = 0.0005


def serve(options: EngineOptions) -> None:
    """Load the model and serve until SIGTERM or SIGINT. Raises an error of the contract that names a wrong option."""
    # The stepping thread and the event loop share the interpreter; at the default of 5 ms one could stall a whole step.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    token = None if options.control_token_file is None else read_token(options.control_token_file)
    listeners = open_listeners(options)
    engine = Engine(options)
    # What is loaded by now stays: without this, full collections would walk all of it again and again, and each of
    # them stops every request for as long.
    gc.collect()
    gc.freeze()
    serve_both(create_app(engine), create_control_app(engine, token), listeners, engine.log.close)


def create_app(engine: Engine) -> FastAPI:
    """The ASGI application for clients; it starts the engine's thread and stops it at its end."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        await asyncio.to_thread(engine.stop)

    app = FastAPI(title="Tailwright engine", lifespan=lifespan)
    intake = app.state.intake = Intake(engine)
    options = engine.options
    app.add_middleware(
        ClientGate,
        names=names_of(options.host, options.allowed_hosts),
        api_keys=None if options.api_key_file is None else ApiKeys(options.api_key_file),
        refused=intake.refusals.counts,
    )
    app.add_middleware(RequestEdge)
    add_error_handlers(app)
    _add_generation(app, intake)
    _add_tokenizer(app, intake)
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


def _body_schema(model: Any) -> dict[str, Any]:
    """For /docs: the endpoints read their bodies themselves, so that the clock sees it."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}
