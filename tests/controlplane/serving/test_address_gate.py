"""What a trusted proxy tells of a client counts when it is an address; what is none is the peer's."""

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from controlplane.api.error_handlers import error_response
from controlplane.serving.address_gate import PEER, AddressGate
from controlplane.serving.limits import Doorkeeper


def client_seen(told: str, peer: str = "127.0.0.1") -> str:
    seen: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["client"][0])

    async def nothing(*_: Any) -> Any:
        raise AssertionError("neither asked nor answered")

    scope = {"type": "http", "client": (told, 0), "state": {PEER: peer}}
    asyncio.run(AddressGate(application, Doorkeeper(), error_response)(scope, nothing, nothing))
    return seen[0]


@pytest.mark.parametrize("told", ["198.51.100.7", "2001:db8::1", "127.0.0.1"])
def test_an_address_counts(told: str) -> None:
    assert client_seen(told) == told


@pytest.mark.parametrize("told", ["\xff", "::::", "unknown", "", "198.51.100.7:80", "a\r\nX: 1"])
def test_what_is_no_address_is_the_peer(told: str) -> None:
    assert client_seen(told) == "127.0.0.1"
