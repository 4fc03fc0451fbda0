"""A text that is no UTF-8 before the handshake is answered; after it: `test_opamp_conformance`."""

import asyncio
import logging
from typing import Any
from unittest.mock import MagicMock

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from controlplane.serving.guarded_websocket import websocket
from controlplane.serving.limits import Doorkeeper, Refused

HEAD = (
    b"GET /v1/opamp HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
MASKED_TEXT = b"\x81\x81\x00\x00\x00\x00\xff"


async def undecided(scope: Any, receive: Any, send: Any) -> None:
    """An application that still looks who it is."""
    await asyncio.Event().wait()


def test_whoever_is_not_let_in_yet_writes_nothing_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    door, transport = Doorkeeper(), MagicMock(asyncio.Transport)
    transport.get_extra_info.return_value = None

    async def speak() -> None:
        config = Config(undecided, ws=websocket(door), log_config=None)
        config.load()
        state = ServerState()
        made: Any = config.ws_protocol_class
        connection = made(config=config, server_state=state, app_state={})
        connection.connection_made(transport)
        connection.data_received(HEAD)
        connection.data_received(MASKED_TEXT)
        for task in state.tasks:
            task.cancel()

    with caplog.at_level(logging.INFO):
        asyncio.run(speak())
    assert transport.abort.called and not transport.write.called
    assert door.refused == {Refused.WEBSOCKET_TEXT: 1}
    assert not [one for one in caplog.records if one.name != "asyncio"]
