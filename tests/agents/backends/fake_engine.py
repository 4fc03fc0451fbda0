"""A stand-in for an engine: the same HTTP surface, events that a test makes up, a configuration that may refuse."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import EngineConfig, parse_config

MODEL = "fake-model"


class FakeEngine:
    """Events by `emit`; `listens` False: it is not ready to serve; `refuse_with` makes PUT /config fail; `restart` is a
    new process that has forgotten all."""

    def __init__(self, ring: int = 100_000) -> None:
        self._lock = threading.Lock()
        self._ring = ring
        self.gone = False
        self.listens = True
        self.cache_resets = 0
        self.refuse_with: TailwrightError | None = None
        self.applied: list[tuple[int, dict[str, Any]]] = []
        self.restart("boot-1")
        self.app = Starlette(
            routes=[
                Route("/events", self._events),
                Route("/config", self._get_config),
                Route("/config", self._put_config, methods=["PUT"]),
                Route("/cache/reset", self._reset_cache, methods=["POST"]),
                Route("/health", self._health),
            ]
        )

    def restart(self, boot: str) -> None:
        with self._lock:
            self.boot = boot
            self.events: list[dict[str, Any]] = []
            self.next_seq = 1
            self.config = EngineConfig()
            self.revision = 0

    def emit(self, *events: dict[str, Any]) -> None:
        with self._lock:
            for event in events:
                self.events.append({**event, "seq": self.next_seq})
                self.next_seq += 1
            del self.events[: max(0, len(self.events) - self._ring)]

    def _hello(self) -> dict[str, Any]:
        oldest = self.events[0]["seq"] if self.events else self.next_seq
        return {"kind": "hello", "boot": self.boot, "oldest": oldest, "model": MODEL}

    async def _events(self, request: Request) -> StreamingResponse:
        boot = request.query_params.get("boot")
        seen = int(request.query_params.get("after", 0)) if boot == self.boot else 0
        return StreamingResponse(self._follow(self.boot, seen), media_type="application/x-ndjson")

    async def _follow(self, boot: str, seen: int) -> AsyncIterator[bytes]:
        yield orjson.dumps(self._hello()) + b"\n"
        while self.boot == boot and not self.gone:
            with self._lock:
                news = [event for event in self.events if event["seq"] > seen]
            if news:
                seen = news[-1]["seq"]
                yield b"".join(orjson.dumps(event) + b"\n" for event in news)
            await asyncio.sleep(0.02)

    def _body(self) -> dict[str, Any]:
        knobs = self.config.knobs()
        return {"revision": self.revision, "knobs": knobs, "sources": dict.fromkeys(knobs, "fake"), "draining": False}

    async def _get_config(self, request: Request) -> JSONResponse:
        return JSONResponse(self._body())

    async def _put_config(self, request: Request) -> JSONResponse:
        body = await request.json()
        try:
            if self.refuse_with is not None:
                raise self.refuse_with
            self.config = parse_config(body["knobs"], prefix="knobs.")
        except TailwrightError as error:
            return JSONResponse(error.body(), error.status)
        self.revision = body["revision"]
        self.applied.append((self.revision, body["knobs"]))
        return JSONResponse(self._body())

    async def _reset_cache(self, request: Request) -> JSONResponse:
        self.cache_resets += 1
        return JSONResponse({"blocks": 7})

    async def _health(self, request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"}) if self.listens else JSONResponse({"status": "starting"}, 503)


def request_events(
    time_s: float, number: int, *, prompt_tokens: int = 100, cached_tokens: int = 0, gaps: int = 7, reason: str = "stop"
) -> list[dict[str, Any]]:
    """The events of one request that ended at `time_s`, with parts that add up."""
    gap_s = 0.01 + (number % 50) / 5000
    parts = {"receive": 0.001, "tokenize": 0.002, "queue": 0.01 + number % 7 / 100, "prefill": 0.05, "send": 0.001}
    ttft, decode = 0.063 + number % 7 / 100 + 0.0005, gap_s * gaps
    e2e = sum(parts.values()) + decode + 0.0005
    shared = {"revision": 3, "prompt_tokens": prompt_tokens, "cached_tokens": cached_tokens}
    return [
        {"kind": "first_token", "time": time_s, "ttft": ttft, **shared},
        {"kind": "gaps", "time": time_s, "gaps": [gap_s] * gaps, **shared},
        step_event(time_s),
        {
            "kind": "finished",
            "time": time_s,
            "request_id": f"request-{number}",
            "finish_reason": reason,
            "arrival": time_s - e2e,
            "output_tokens": gaps + 1,
            "block_size": 16,
            "block_hashes": [2**64 - 1 - number, number],
            "e2e": e2e,
            "ttft": ttft,
            "tpot": (e2e - ttft) / gaps,
            "decode": decode,
            "unaccounted": 0.0005,
            **parts,
            **shared,
        },
    ]


def step_event(time_s: float, **changed: Any) -> dict[str, Any]:
    return {
        "kind": "step",
        "time": time_s,
        "revision": 3,
        "schedule": 0.0002,
        "forward": 0.012,
        "sample": 0.0008,
        "commit": 0.0003,
        "running": 2,
        "waiting": 1,
        "kv_usage": 0.25,
        "batched_tokens": 12,
        "draft_tokens": 4,
        "accepted_tokens": 3,
        "preemptions": 0,
        **changed,
    }
