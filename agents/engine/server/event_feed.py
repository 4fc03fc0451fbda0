"""GET /events: the event log as newline-delimited JSON, followed for as long as the reader stays.

Guarantee: a reader costs the engine at most a few wake-ups a second, and a slow, dead or vanished one nothing at all.
"""

import asyncio
import contextlib

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agents.engine.core.event_log import EventLog
from controlplane.terminal.checkout import release

_BATCH_S = 0.1


class EventFeed(Response):
    """`Hello`, then every event above `after` (see controlplane.contract.reports.engine_event)."""

    def __init__(self, log: EventLog, model: str, boot: str | None, after: int) -> None:
        self._log, self._model = log, model
        self._seen = log.resume_point(boot, after)
        super().__init__()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        hello = {"kind": "hello", "boot": self._log.boot, "oldest": self._log.oldest, "model": self._model}
        of_engine = {"process": f"engine:{self._log.boot}", "version": f"tailwright {release()}"}
        body = orjson.dumps({**hello, **of_engine}) + b"\n"
        await send({"type": "http.response.body", "body": body, "more_body": True})
        gone = asyncio.create_task(_gone(receive))
        follow = asyncio.create_task(self._follow(send))
        try:
            await asyncio.wait({gone, follow}, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            follow.cancel()

    async def _follow(self, send: Send) -> None:
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        called = False

        def wake() -> None:
            """In whichever thread appends: one call for many events."""
            nonlocal called
            if not called:
                called = True
                with contextlib.suppress(RuntimeError):  # The loop is closed, the reader gone with it.
                    loop.call_soon_threadsafe(news.set)

        self._log.add_waker(wake)
        try:
            while True:
                called = False
                news.clear()
                while events := self._log.after(self._seen):
                    lines = b"".join(orjson.dumps(event) + b"\n" for event in events)
                    await send({"type": "http.response.body", "body": lines, "more_body": True})
                    self._seen = events[-1]["seq"]
                if self._log.closed:
                    break
                await news.wait()
                await asyncio.sleep(_BATCH_S)
        finally:
            self._log.remove_waker(wake)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
