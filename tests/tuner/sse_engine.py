"""A small engine made of waiting: /v1/completions (SSE), /tokenize, /health, /metrics, with settable delays."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

Delay = Callable[["SseEngine", int], float]


class SseEngine:
    """Runs in a thread of its own. `prefill_s` and `gap_s` give the waiting before the first and each later token.

    `together`: nobody is answered before so many requests have come. `at_begin` is called with how many have.
    """

    def __init__(self, prefill_s: float = 0.05, gap_s: float = 0.01) -> None:
        self.prefill: Delay = lambda _, __: prefill_s
        self.gap: Delay = lambda _, __: gap_s
        self.knobs: dict[str, Any] = {}
        self.together = 0
        self.at_begin: Callable[[int], None] = lambda _: None
        self.fail_status = 0
        self.api_key = ""
        self.prompts: list[list[int]] = []
        self.began: list[float] = []
        self.resets = 0
        self.running = 0
        self.drafts: tuple[int, int] | None = None
        self.models: list[dict[str, Any]] = []
        self.token_id: Callable[[list[int]], int] = lambda prompt: sum(prompt) % 97
        self.first_token: Callable[[list[int]], str] = lambda prompt: f" t{sum(prompt) % 97}"
        self._server = uvicorn.Server(uvicorn.Config(self._app(), port=0, log_level="error", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> SseEngine:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(5)

    def _app(self) -> FastAPI:
        app = FastAPI()

        @app.middleware("http")
        async def wants_its_key(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
            if self.api_key and request.headers.get("Authorization") != f"Bearer {self.api_key}":
                return JSONResponse({"error": {"message": "no key"}}, 401)
            return await call_next(request)

        @app.post("/tokenize")
        async def tokenize(request: Request) -> dict[str, Any]:
            return {"tokens": [ord(letter) % 4096 for letter in (await request.json())["prompt"]]}

        @app.get("/v1/models")
        async def models() -> dict[str, Any]:
            return {"data": self.models}

        @app.get("/health")
        async def health() -> dict[str, int]:
            return {"running": self.running, "waiting": 0}

        @app.get("/metrics")
        async def metrics() -> PlainTextResponse:
            told = f"requests_running {self.running}\n"
            if self.drafts is not None:
                for name, count in zip(("draft", "accepted"), self.drafts, strict=True):
                    told += f'vllm:spec_decode_num_{name}_tokens_total{{model_name="m"}} {float(count)}\n'
                    told += f'vllm:spec_decode_num_{name}_tokens_per_pos_total{{position="0"}} 7.0\n'
            return PlainTextResponse(told)

        @app.post("/v1/completions")
        async def completions(request: Request) -> Any:
            body = await request.json()
            if self.fail_status:
                return JSONResponse({"error": {"message": "no"}}, self.fail_status)
            self.prompts.append(body["prompt"])
            self.began.append(time.perf_counter())
            self.at_begin(len(self.began))
            if not body.get("stream"):
                await asyncio.sleep(self.prefill(self, len(body["prompt"])))
                choice: dict[str, Any] = {"text": self.first_token(body["prompt"])}
                if body.get("return_token_ids"):
                    choice["token_ids"] = [self.token_id(body["prompt"])]
                return {"choices": [choice], "usage": {"completion_tokens": 1}}
            return StreamingResponse(self._stream(body), media_type="text/event-stream")

        return app

    async def _stream(self, body: dict[str, Any]) -> AsyncIterator[str]:
        self.running += 1
        try:
            while len(self.began) < self.together:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            for index in range(body["max_tokens"]):
                length = len(body["prompt"])
                await asyncio.sleep(self.gap(self, length) if index else self.prefill(self, length))
                yield "data: " + json.dumps({"choices": [{"text": " x", "index": 0}]}) + "\n\n"
            usage = {"completion_tokens": body["max_tokens"], "prompt_tokens": len(body["prompt"])}
            yield "data: " + json.dumps({"choices": [], "usage": usage}) + "\n\ndata: [DONE]\n\n"
        finally:
            self.running -= 1
