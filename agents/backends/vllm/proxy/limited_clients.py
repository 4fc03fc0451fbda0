"""aiohttp's server with limits on what a client's connection may hold, the same as the service's (`serving.limits`).

Guarantee: of a head that is not whole no more than `head_bytes` is held, for at most `head_s`; who has said nothing is
let go after that time; connections are bounded, in all and by address. What is refused is counted, answered in the
contract's form, and read and dropped for a while, so that the client reads the answer and not a reset.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import StreamReader, web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from controlplane.serving.limits import Doorkeeper, Refused
from controlplane.serving.raw_answer import DRAIN_BYTES, DRAIN_S, refusal

HEAD_FIELDS = 128
"""Most fields of a head: aiohttp's parser has no setting for it."""
KEPT_IDLE_S = 75.0
"""Between two requests of a connection; half a head that came together with a request has this time, too."""


class LimitedServer(web.Server):
    """All of its connections are counted by one doorkeeper."""

    def __init__(self, door: Doorkeeper, handler: Any, **options: Any) -> None:
        super().__init__(handler, **options)
        self._door = door
        self._options = options

    def __call__(self) -> RequestHandler:
        options = {name: value for name, value in self._options.items() if name not in _OF_THE_SERVER}
        options.setdefault("keepalive_timeout", KEPT_IDLE_S)
        return _LimitedClient(self, self._door, loop=self._loop, **options)


_OF_THE_SERVER = frozenset({"request_factory", "handler_cancellation"})


def _reason(error: BaseException) -> Refused:
    """Which limit the parser's error is about; aiohttp has no class of its own for too many fields."""
    if isinstance(error, LineTooLong):
        return Refused.HEAD_BYTES
    return Refused.HEAD_FIELDS if "Too many headers" in str(error) else Refused.MALFORMED


class _LimitedClient(RequestHandler):
    """One connection."""

    def __init__(self, server: web.Server, door: Doorkeeper, **options: Any) -> None:
        super().__init__(server, **options)
        self._door = door
        self._address = ""
        self._head_bytes = 0  # As they came, while the head is not whole.
        self._head_timer: asyncio.TimerHandle | None = None
        self._body: StreamReader | None = None  # Of the newest request.
        self._dropped: int | None = None  # Bytes since the refusal; None: there was none.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if peer else ""
        refused = self._door.enter(self._address)
        if refused is not None:
            self._end(refused)
        else:
            self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        self._door.leave(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._dropped is not None:
            self._dropped += len(data)
            if self._dropped > DRAIN_BYTES:
                self._transport_of_client().abort()
            return
        # aiohttp calls with nothing, too, when it has room again for what its parser holds.
        in_head = bool(data) and (self._body is None or self._body.is_eof())
        if in_head:
            if self._head_timer is None:
                self._await_head()
            self._head_bytes += len(data)
        told = self._request_count
        super().data_received(data)
        if self._request_count != told:
            self._stop_timer()
            self._head_bytes = 0
            self._body = self._messages[-1][1]
        elif in_head and self._head_bytes > self._door.limits.head_bytes and not self._is_closed():
            self._end(self._door.refuse(Refused.HEAD_BYTES))

    def _make_error_handler(self, found: Any) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        """What answers, in its turn, for what the parser refuses."""
        reason = _reason(found.exc)

        async def refuse(_: web.BaseRequest) -> web.StreamResponse:
            if not self._is_closed():
                self._end(self._door.refuse(reason))
                await asyncio.sleep(DRAIN_S)  # Ends with the connection; aiohttp would close it at once.
            return web.Response()

        return refuse

    def _is_closed(self) -> bool:
        return self.transport is None or self.transport.is_closing() or self._dropped is not None

    def _await_head(self) -> None:
        self._head_timer = self._loop.call_later(self._door.limits.head_s, self._head_is_late)

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._is_closed():
            return
        self._door.refuse(Refused.HEAD_TIME)
        if self._head_bytes and not self._is_answering():
            self._end(Refused.HEAD_TIME)
        else:
            self._transport_of_client().close()  # There is nothing to answer, or no place for it.

    def _is_answering(self) -> bool:
        return self._request_in_progress or bool(self._messages)

    def _end(self, reason: Refused) -> None:
        self._stop_timer()
        self._dropped = 0
        transport = self._transport_of_client()
        transport.write(refusal(reason, self._door.limits))
        if transport.can_write_eof():
            try:
                transport.write_eof()
            except OSError:  # It was gone before its answer.
                transport.abort()
                return
        self._head_timer = self._loop.call_later(DRAIN_S, transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _transport_of_client(self) -> asyncio.Transport:
        assert self.transport is not None
        return self.transport
