"""An engine that does nothing but tell of requests, for real agents to follow: what it has told is known exactly.

It speaks the event stream of `controlplane.contract.reports.engine_event` over local HTTP, as the torch engine does.
"""

import asyncio
import json
import re
import threading
import time
from collections import Counter
from urllib.parse import parse_qs, urlsplit

from benchmarks.engine_rivals.servers import HOST
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.metrics import WINDOW_S

MODEL = "kill-engine"
_TICK_S = 0.02
_PARTS = {"receive": 0.001, "tokenize": 0.002, "queue": 0.01, "prefill": 0.05, "decode": 0.2, "send": 0.001}
"""Seconds."""


class KillEngine:
    """`told`: requests that ended, by the window of their time. `quiet` ends the making of requests."""

    def __init__(self, per_s: float, model: str = MODEL) -> None:
        self.revision = 1
        self._model = model
        self.told: Counter[int] = Counter()
        self._per_s = per_s
        self._events: list[bytes] = []
        self._boot = f"boot-{time.time_ns()}"
        self._quiet = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._port = 0
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait(10)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    @property
    def requests(self) -> int:
        return self.told.total()

    def quiet(self) -> None:
        self._quiet.set()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, HOST, 0))
        self._port = int(self._server.sockets[0].getsockname()[1])
        self._making = self._loop.create_task(self._make())
        started.set()
        self._loop.run_forever()
        self._server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _make(self) -> None:
        due = 0.0
        while not self._quiet.is_set():
            due += self._per_s * _TICK_S
            while due >= 1.0:
                self._finish_one()
                due -= 1.0
            await asyncio.sleep(_TICK_S)

    def _finish_one(self) -> None:
        number, now = len(self._events) // 2, time.time()
        times = self.slowness()
        parts = {name: times * seconds for name, seconds in _PARTS.items()}
        e2e, ttft = sum(parts.values()) + 0.0005, 0.0005 + times * 0.063
        shared = {"time": now, "revision": self.revision, "prompt_tokens": 100 + number % 900, "cached_tokens": 0}
        self._add({"kind": "first_token", "ttft": ttft, **shared})
        self._add(
            {
                "kind": "finished",
                "request_id": f"{self._boot}-{number}",
                "finish_reason": "stop",
                "arrival": now - e2e,
                "output_tokens": 21,
                "block_size": 16,
                "block_hashes": [],
                "e2e": e2e,
                "ttft": ttft,
                "tpot": (e2e - ttft) / 20,
                "unaccounted": 0.0005,
                **parts,
                **shared,
            }
        )
        self.told[int(now // WINDOW_S)] += 1

    def _add(self, event: dict[str, object]) -> None:
        self._events.append(json.dumps({**event, "seq": len(self._events) + 1}).encode() + b"\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                method, path = request.split(b" ", 2)[:2]
                target = urlsplit(path.decode())
                length = re.search(rb"\r\ncontent-length: *(\d+)", request.lower())
                sent = await reader.readexactly(int(length[1]) if length else 0)
                if target.path == "/events":
                    await self._follow(writer, parse_qs(target.query))
                    return
                body = self.answer(method.decode(), target.path, sent)
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # The agent was killed, or all ends.
        finally:
            writer.close()

    def slowness(self) -> float:
        """Times as slow as usual, of the next request."""
        return 1.0

    def answer(self, method: str, path: str, body: bytes) -> bytes:
        """The body of a 200 to anything but `/events`."""
        if path == "/health":
            return b'{"status": "ok"}'
        return json.dumps(
            {"revision": self.revision, "knobs": EngineConfig().knobs(), "sources": {}, "draining": False}
        ).encode()

    async def _follow(self, writer: asyncio.StreamWriter, asked: dict[str, list[str]]) -> None:
        seen = int(asked.get("after", ["0"])[0]) if asked.get("boot") == [self._boot] else 0
        hello = {"kind": "hello", "boot": self._boot, "oldest": 1, "model": self._model}
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n")
        writer.write(json.dumps(hello).encode() + b"\n")
        while True:
            if len(self._events) > seen:
                news = self._events[seen:]
                seen += len(news)
                writer.write(b"".join(news))
            await writer.drain()
            await asyncio.sleep(_TICK_S)
