"""Requests through the vLLM proxy while it is killed: each gets its own answer or an error, and none is served twice.

The server behind it is this module's: it notes the number in each request, and answers with it.
"""

import asyncio
import contextlib
import json
import threading
from collections import Counter
from pathlib import Path

from benchmarks.chaos_measures.raw_exchange import Address, Ended, Unreadable, Wire
from benchmarks.engine_rivals.servers import HOST

_CLIENTS = 4
_PAUSE_S = 0.05
_ANSWER_LIMIT_S = 15.0
_SERVING_S = 0.02


class Proxied:
    """Clients of the proxy on `port`, and the server behind it on `upstream_port`. `close` ends both."""

    def __init__(self, port: int) -> None:
        self.answered, self.broken = 0, 0
        self.served: Counter[int] = Counter()
        self.wrong: list[str] = []
        self.port, self._next = port, 0
        self._loop = asyncio.new_event_loop()
        self._clients: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.upstream_port: int = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def start(self) -> None:
        """The clients, once the proxy listens."""
        self._loop.call_soon_threadsafe(self._begin)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(2 * _ANSWER_LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def check(self) -> list[str]:
        twice = [f"request {number} was served {times} times" for number, times in self.served.items() if times > 1]
        return self.wrong + twice

    def _begin(self) -> None:
        self._clients = [self._loop.create_task(self._ask()) for _ in range(_CLIENTS)]

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled: all ends.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                body = await reader.readexactly(length)
                if body:
                    number = int(json.loads(body)["number"])
                    self.served[number] += 1
                    await asyncio.sleep(_SERVING_S)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
        writer.close()

    async def _ask(self) -> None:
        wire = Wire(Address(self.port))
        while True:
            number, self._next = self._next, self._next + 1
            body = json.dumps({"model": "m", "prompt": "x", "number": number}).encode()
            head = f"POST /v1/completions HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
            try:
                answer = await wire.exchange(
                    f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body, _ANSWER_LIMIT_S
                )
            except (Ended, TimeoutError, Unreadable):
                self.broken += 1
            else:
                self.answered += 1
                if answer.status == 200 and answer.body != body:
                    self.wrong.append(f"request {number} got {answer.body[:100]!r}")
            await asyncio.sleep(_PAUSE_S)


def proxy_command(port: int, socket: Path, upstream_port: int) -> list[str]:
    """Arguments of `python -m agents.backends.vllm.proxy`."""
    target = f"http://{HOST}:{upstream_port}"
    return ["--host", HOST, "--port", str(port), "--control", str(socket), "--target", target]
