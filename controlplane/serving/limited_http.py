"""uvicorn's HTTP protocol with limits on what a connection may hold (`limits`).

Guarantee: of a head that is not whole no more than `head_bytes` is held, for at most `head_s`; a silent connection is
closed after that time; a body that stops is given up, unless it is this server that does not read it. The answer has
the contract's form, and the connection ends with it.
"""

import asyncio
import json
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from controlplane.serving.limits import Doorkeeper, Refused
from controlplane.serving.tls import TLS_NAMES, names_in

_LOOK_AGAIN_S = 1.0


class LimitedHttp(HttpToolsProtocol):
    """One connection. Made by `protocol`."""

    def __init__(self, door: Doorkeeper, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self._door = door
        self._address = ""
        self._is_counted = False
        self._in_head = True
        self._head_bytes = 0  # As they came, while the head is not whole.
        self._field_bytes = 0  # Of its target and fields, as they are told.
        self._refusal: Refused | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._body_began_s = 0.0
        self._body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        if names := names_in(transport.get_extra_info("peercert")):
            self.app_state = {**self.app_state, TLS_NAMES: names}
        self._is_counted = True
        refused = self._door.enter(self._address)
        if refused is not None:
            self._end(refused)
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            if self._timer is None:
                self._await_head()  # The first bytes of another request on a connection that was kept.
            self._head_bytes += len(data)
        super().data_received(data)
        # What llhttp holds of a field that has not ended it does not tell: so the bytes are counted.
        if self._in_head and self._head_bytes > self._door.limits.head_bytes and not self.transport.is_closing():
            self._end(self._door.refuse(Refused.HEAD_BYTES))

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._field_bytes = len(self.url)
        if self._field_bytes > self._door.limits.head_bytes:
            self._refuse_head(Refused.HEAD_BYTES)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._field_bytes += len(name) + len(value)
        limits = self._door.limits
        if len(self.headers) > limits.head_fields:
            self._refuse_head(Refused.HEAD_FIELDS)
        if self._field_bytes > limits.head_bytes:
            self._refuse_head(Refused.HEAD_BYTES)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._stop_timer()
        super().on_headers_complete()
        self._body_began_s, self._body_bytes = self.loop.time(), 0
        self._await_body(self._door.limits.body_s)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_timer()
        self._in_head = True
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._stop_timer()
        self._leave()  # From here on it is the WebSocket's.
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """What the parser refuses, for the reason that a callback here has given it or for one of its own."""
        if self._refusal is not None:
            self._end(self._refusal)
        else:
            super().send_400_response(msg)

    def _refuse_head(self, reason: Refused) -> None:
        self._refusal = self._door.refuse(reason)
        raise ValueError(reason)  # Ends the parsing: httptools has no other way to.

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self._door.limits.head_s, self._head_is_late)

    def _head_is_late(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        self._door.refuse(Refused.HEAD_TIME)
        if self._head_bytes:
            self._end(Refused.HEAD_TIME)
        else:
            self.transport.close()  # It has said nothing: there is nothing to answer.

    def _await_body(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._look_at_body)

    def _look_at_body(self) -> None:
        self._timer = None
        if self.transport.is_closing() or self.cycle is None or not self.cycle.more_body:
            return
        left_s = self._body_began_s + self._door.limits.body_deadline_s(self._body_bytes) - self.loop.time()
        if self.flow.read_paused:
            self._body_began_s += max(_LOOK_AGAIN_S, -left_s)  # We do not read: that is not the client's doing.
            left_s = _LOOK_AGAIN_S
        if left_s > 0:
            self._await_body(left_s)
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
        """Answer with the reason, and close."""
        self._stop_timer()
        status, message = self._door.limits.message(reason)
        error: dict[str, Any] = {"code": reason.value, "message": message, "detail": {}}
        body = json.dumps({"error": error}).encode()
        head = [b"content-type: application/json\r\n", b"content-length: %d\r\n" % len(body), b"connection: close\r\n"]
        if status in (429, 503):
            head.append(b"retry-after: 5\r\n")
        self.transport.write(b"".join([STATUS_LINE[status], *head, b"\r\n", body]))
        self.transport.close()


def protocol(door: Doorkeeper) -> type[asyncio.Protocol]:
    """The protocol class for `uvicorn.Config(http=...)`: all its connections are counted by one doorkeeper."""

    class Guarded(LimitedHttp):
        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            super().__init__(door, config, server_state, app_state)

    return cast("type[asyncio.Protocol]", Guarded)
