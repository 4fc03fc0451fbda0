"""uvicorn's WebSocket protocol, for which a text that is no UTF-8 is nothing of its own fault.

Guarantees: such a message ends its connection with code 1007 (RFC 6455, section 8.1), is counted, and costs the log one
line without a trace, none before the handshake is answered: whoever is not let in writes nothing into it. A connection
whose peer's machine has vanished ends (`vanished_peer`). One that the service's stop has ended (its peer is told 1012,
"service restart") writes nothing into the log, also where its application is not through in time.
"""

import asyncio
import logging
import socket
from typing import Any, cast

from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from controlplane.contract.reports import vanished_peer
from controlplane.serving.limits import Doorkeeper, Refused

logger = logging.getLogger(__name__)

NOT_UTF8 = 1007


class GuardedWebSocket(WebSocketsSansIOProtocol):
    """One connection. Made by `websocket`."""

    def __init__(self, door: Doorkeeper, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self._door = door
        self._served, self.app = self.app, self._until_the_stop

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if (connection := transport.get_extra_info("socket")) is not None and connection.family != socket.AF_UNIX:
            vanished_peer.detect(connection)

    async def _until_the_stop(self, scope: Any, receive: Any, send: Any) -> None:
        """uvicorn cancels after a stop what has not ended in time, of which it writes a line for all, and would write a
        trace for each."""
        try:
            await self._served(scope, receive, send)
        except asyncio.CancelledError:
            self.handshake_complete = True  # Or refused: a stop answers whoever waited for it.

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # Answered, if by a refusal; uvicorn would log that nothing was.

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent and not _is_utf8(b"".join(self.frames)):
            self.frames = []
            self._end()
        else:
            super().send_receive_event_to_app()

    def _end(self) -> None:
        self._door.refuse(Refused.WEBSOCKET_TEXT)
        if not self.handshake_complete:  # Nothing can be said yet.
            self.transport.abort()
            return
        logger.warning("closed a WebSocket of %s: a text that is no UTF-8", self.client[0] if self.client else "?")
        self.conn.send_close(NOT_UTF8)
        self.handle_parser_exception()


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def websocket(door: Doorkeeper) -> type[asyncio.Protocol]:
    """The protocol class for `uvicorn.Config(ws=...)`."""

    class Guarded(GuardedWebSocket):
        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            super().__init__(door, config, server_state, app_state)

    return cast("type[asyncio.Protocol]", Guarded)
