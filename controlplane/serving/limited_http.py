"""uvicorn's HTTP protocol with limits on what a connection may hold (`limits`).

Guarantee: of a head that is not whole no more than `head_bytes` is held, for at most `head_s`; a silent connection is
closed after that time; a body that stops is given up, unless it is this server that does not read it. The answer has
the contract's form, and the connection ends with it: what the client still sends is read and dropped, up to
`DRAIN_BYTES` and `DRAIN_S`, so that it reads the answer and not a reset. Whose certificate is revoked is not read at
all. A connection has one timer, whatever it waits for.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from controlplane.serving.address_gate import PEER
from controlplane.serving.limits import Doorkeeper, Refused
from controlplane.serving.raw_answer import DRAIN_BYTES, DRAIN_S, refusal
from controlplane.serving.tls import TLS_NAMES, names_in

_LOOK_AGAIN_S = 1.0


def _is_news(record: logging.LogRecord) -> bool:
    """Not what anybody may cause for nothing, as often as they like: it is counted instead."""
    return record.msg not in ("Invalid HTTP request received.", "Unsupported upgrade request.")


DRAINED_AT_ONCE = 1_000
"""Connections beyond the most there may be that are still told so; more are cut."""

IsRevoked = Callable[[dict[str, Any] | None], bool]
"""Whether a checked certificate (`SSLSocket.getpeercert`) no longer counts."""


class _Outward:
    """The transport as uvicorn's request cycles see it: after their answer the connection ends as `LimitedHttp` has it
    end."""

    __slots__ = ("_connection",)

    def __init__(self, connection: "LimitedHttp") -> None:
        self._connection = connection

    def write(self, data: bytes) -> None:
        if not self._connection.has_ended:
            self._connection.transport.write(data)

    def close(self) -> None:
        self._connection.finish()

    def is_closing(self) -> bool:
        return self._connection.has_ended


class LimitedHttp(HttpToolsProtocol):
    """One connection. Made by `protocol`."""

    def __init__(
        self,
        door: Doorkeeper,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        is_revoked: IsRevoked | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._door = door
        self._is_revoked = is_revoked
        self._address = ""
        self._is_counted = False
        self._in_head = True
        self._head_bytes = 0  # As they came, while the head is not whole.
        self._field_bytes = 0  # Of its target and fields, as they are told.
        self._hosts = 0  # Fields named Host.
        self._refusal: Refused | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_s: float | None = None  # On the loop's clock: when to look what has come; None: nothing is awaited.
        self._longest_s = min(door.limits.head_s, door.limits.body_s)  # Of one timer: nothing is awaited for less.
        self._body_began_s = 0.0
        self._body_bytes = 0
        self._drained: int | None = None  # Bytes dropped since the last answer; None: it has not been given.
        self._outward = _Outward(self)

    @property
    def has_ended(self) -> bool:
        """Nothing goes out any more."""
        return self._drained is not None or self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        certificate = transport.get_extra_info("peercert")
        if self._is_revoked is not None and self._is_revoked(certificate):
            self._door.refuse_access(Refused.CERTIFICATE_REVOKED, self._address)
            transport.abort()
            return
        self.app_state = {**self.app_state, PEER: self._address}
        if names := names_in(certificate):
            self.app_state[TLS_NAMES] = names
        self._is_counted = True
        refused = self._door.enter(self._address)
        if refused is None:
            self._await(self._door.limits.head_s)
        elif self._door.open.total() > self._door.limits.connections + DRAINED_AT_ONCE:
            transport.abort()
        else:
            self._end(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._drained is not None:
            self._drained += len(data)
            if self._drained > DRAIN_BYTES:
                self.transport.abort()
            return
        if self.transport.is_closing():
            return
        if self._in_head:
            if self._due_s is None:
                self._await(self._door.limits.head_s)  # The first bytes of another request on a connection kept.
            self._head_bytes += len(data)
        super().data_received(data)
        # What llhttp holds of a field that has not ended it does not tell: so the bytes are counted.
        if self._in_head and self._head_bytes > self._door.limits.head_bytes and not self.has_ended:
            self._end(self._door.refuse(Refused.HEAD_BYTES))

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._field_bytes, self._hosts = len(self.url), 0
        if self._field_bytes > self._door.limits.head_bytes:
            self._refuse_head(Refused.HEAD_BYTES)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._field_bytes += len(name) + len(value)
        self._hosts += self.headers[-1][0] == b"host"
        limits = self._door.limits
        if len(self.headers) > limits.head_fields:
            self._refuse_head(Refused.HEAD_FIELDS)
        if self._field_bytes > limits.head_bytes:
            self._refuse_head(Refused.HEAD_BYTES)

    def on_headers_complete(self) -> None:
        # RFC 9112, section 3.2: one Host, which only HTTP/1.0 may leave out; the gate for hosts looks at the first.
        if self._hosts != 1 and (self._hosts or self.parser.get_http_version() != "1.0"):
            self._refuse_head(Refused.MALFORMED)
        self._in_head, self._head_bytes, self._due_s = False, 0, None
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:  # It is no WebSocket's.
            self.cycle.transport = cast("asyncio.Transport", self._outward)
            self._body_began_s, self._body_bytes = self.loop.time(), 0
            self._await(self._door.limits.body_s)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._due_s = True, None
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._stop_timer()
        self._leave()  # From here on it is the WebSocket's.
        super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        if self._drained is None:
            super().on_response_complete()
        else:
            self.server_state.total_requests += 1  # No other request of this connection is begun.

    def shutdown(self) -> None:
        if self._drained is None:
            super().shutdown()
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """What the parser refuses, for the reason that a callback here has given it or for one of its own."""
        self._end(self._refusal or self._door.refuse(Refused.MALFORMED))

    def finish(self) -> None:
        """The last answer has gone out: close, once the client has read it."""
        if self.cycle is not None and self.cycle.more_body and not self.has_ended:
            self._drain()
        else:
            self.transport.close()

    def _refuse_head(self, reason: Refused) -> None:
        self._refusal = self._door.refuse(reason)
        raise ValueError(reason)  # Ends the parsing: httptools has no other way to.

    def _await(self, seconds: float) -> None:
        """Look in so many seconds, unless what is awaited has come."""
        self._due_s = self.loop.time() + seconds
        if self._timer is None:
            self._set_timer(seconds)

    def _set_timer(self, seconds: float) -> None:
        # Never for longer than any wait: what is awaited next is due after it.
        self._timer = self.loop.call_later(min(seconds, self._longest_s), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._due_s is None or self.has_ended:
            return
        left_s = self._due_s - self.loop.time()
        if left_s > 0:
            self._set_timer(left_s)
            return
        self._due_s = None
        if self._in_head:
            self._head_is_late()
        else:
            self._look_at_body()

    def _head_is_late(self) -> None:
        self._door.refuse(Refused.HEAD_TIME)
        if self._head_bytes:
            self._end(Refused.HEAD_TIME)
        else:
            self.transport.close()  # It has said nothing: there is nothing to answer.

    def _look_at_body(self) -> None:
        if self.cycle is None or not self.cycle.more_body:
            return
        left_s = self._body_began_s + self._door.limits.body_deadline_s(self._body_bytes) - self.loop.time()
        if self.flow.read_paused:
            self._body_began_s += max(_LOOK_AGAIN_S, -left_s)  # We do not read: that is not the client's doing.
            left_s = _LOOK_AGAIN_S
        if left_s > 0:
            self._await(left_s)
            return
        self._door.refuse(Refused.BODY_TIME)
        if self.cycle.response_started:
            self.transport.close()
        else:
            self._end(Refused.BODY_TIME)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._door.leave(self._address)

    def _end(self, reason: Refused) -> None:
        """Answer with the reason, and close; within another answer there is no place for it."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()
            return
        self.transport.write(refusal(reason, self._door.limits))
        self._drain()

    def _drain(self) -> None:
        self._drained = 0
        self._stop_timer()
        self._unset_keepalive_if_required()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self.loop.call_later(DRAIN_S, self.transport.close)


def end_revoked(connections: Iterable[Any], door: Doorkeeper, is_revoked: IsRevoked) -> None:
    """Of the open connections (`ServerState.connections`: HTTP and WebSocket), end those whose certificate was revoked
    since they began."""
    for connection in list(connections):
        transport: asyncio.Transport = connection.transport
        if not transport.is_closing() and is_revoked(transport.get_extra_info("peercert")):
            peer = transport.get_extra_info("peername") or ("",)
            door.refuse_access(Refused.CERTIFICATE_REVOKED, str(peer[0]))
            transport.abort()


def protocol(door: Doorkeeper, is_revoked: IsRevoked | None = None) -> type[asyncio.Protocol]:
    """The protocol class for `uvicorn.Config(http=...)`: all its connections are counted by one doorkeeper."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)

    class Guarded(LimitedHttp):
        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            super().__init__(door, config, server_state, app_state, is_revoked)

    return cast("type[asyncio.Protocol]", Guarded)
