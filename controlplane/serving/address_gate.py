"""ASGI middleware: how many requests one client behind a trusted proxy may have under way.

A proxy's own connections are everybody's, so that `limits` does not bound them by address. What counts instead is the
address that it tells (`X-Forwarded-For`), by uvicorn's proxy headers: those of other peers are not read at all. What is
told and is no address does not count: the client is then who the connection comes from.
"""

from collections.abc import Callable
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.contract.errors import Overloaded, TailwrightError
from controlplane.serving.limits import Doorkeeper, Refused
from controlplane.serving.raw_answer import RETRY_AFTER_S

PEER = "tailwright.peer"
"""Where in the ASGI state `limited_http` puts the address that a connection truly comes from."""


class AddressGate:
    """429 for one more; a WebSocket is one as long as it is open."""

    def __init__(self, app: ASGIApp, door: Doorkeeper, refuse: Callable[[TailwrightError], ASGIApp]) -> None:
        self._app = app
        self._door = door
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = _forwarded(scope)
        if address is not None and not _is_address(address):
            scope, address = {**scope, "client": (scope["state"][PEER], 0)}, None
        if address is None:
            await self._app(scope, receive, send)
            return
        try:
            if self._door.begin(address) is None:
                await self._app(scope, receive, send)
            else:
                _, message = self._door.limits.message(Refused.CONNECTIONS_OF_ADDRESS)
                await self._refuse(Overloaded(message, RETRY_AFTER_S))(scope, receive, send)
        finally:
            self._door.end(address)


def _forwarded(scope: Scope) -> str | None:
    """The client's address, where a proxy has told it."""
    if scope["type"] not in ("http", "websocket") or scope.get("client") is None:
        return None
    address: str = scope["client"][0]
    return None if address == scope.get("state", {}).get(PEER, address) else address


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
