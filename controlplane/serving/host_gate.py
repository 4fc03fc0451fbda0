"""ASGI middleware: a request whose `Host` names another server is answered 421 before anything reads it."""

from collections.abc import Callable, Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.contract.errors import TailwrightError, UnknownHost
from controlplane.contract.host_names import answers_to
from controlplane.serving.limits import Doorkeeper, Refused, address_in


class HostGate:
    """`refuse` makes the answer that says an error."""

    def __init__(
        self, app: ASGIApp, names: Collection[str], door: Doorkeeper, refuse: Callable[[TailwrightError], ASGIApp]
    ) -> None:
        self._app = app
        self._names = names
        self._door = door
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" or scope["type"] == "websocket":
            host = next((value for name, value in scope["headers"] if name == b"host"), b"")
            if not answers_to(host, self._names):
                self._door.refuse_access(Refused.HOST, address_in(scope))
                await self._refuse(UnknownHost(host))(scope, receive, send)
                return
        await self._app(scope, receive, send)
