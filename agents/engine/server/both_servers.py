"""Two servers in one event loop: clients on a port, control on a socket of its own; they start and end together.

Guarantee: what is taken cannot be served (a port, a socket that another engine has) is told before the model is loaded;
on SIGTERM or SIGINT followers of the event log are let go at once, requests get 30 s to finish, and the status is 0.
"""

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from agents.engine.options import EngineOptions
from agents.host.engine_socket import engine_socket
from controlplane.contract.errors import BadSettings
from controlplane.serving.limited_http import protocol
from controlplane.serving.limits import Doorkeeper
from controlplane.serving.owned_socket import claim, make_folder

_GRACEFUL_STOP_S = 30


@dataclass(frozen=True)
class Listeners:
    """`control_path` is None where control is on a port."""

    clients: socket.socket
    control: socket.socket
    control_path: Path | None

    @property
    def port(self) -> int:
        return int(self.clients.getsockname()[1])

    def close(self) -> None:
        self.clients.close()
        self.control.close()
        if self.control_path is not None:
            self.control_path.unlink(missing_ok=True)


def open_listeners(options: EngineOptions) -> Listeners:
    """Raises BadSettings or Conflict that names the option."""
    clients = _bind("port", options.host, options.port)
    try:
        if options.control_port is not None:
            return Listeners(clients, _bind("control_port", options.host, options.control_port), None)
        path = options.control_socket
        if path is None:
            path = engine_socket(clients.getsockname()[1])
            make_folder(path.parent, "control_socket")
        return Listeners(clients, claim(path, "control_socket"), path)
    except BaseException:
        clients.close()
        raise


def _bind(field: str, host: str, port: int) -> socket.socket:
    """Bound, not listening yet: until the model is loaded, who connects is refused at once and may go elsewhere."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise BadSettings(f"{field}: cannot listen on {host}:{port}: {error.strerror}", field=field) from error
    return made


@dataclass(frozen=True)
class Entrance:
    """By what clients and the agent come in. `door` counts what is refused; `tls` is for ports, not for the socket."""

    listeners: Listeners
    door: Doorkeeper
    tls: ssl.SSLContext | None

    def server(self, app: FastAPI, *, on_port: bool) -> "_Server":
        tls = self.tls
        config = uvicorn.Config(
            app,
            access_log=False,
            timeout_graceful_shutdown=_GRACEFUL_STOP_S,
            http=protocol(self.door),
            ssl_context_factory=None if tls is None or not on_port else lambda *_: tls,
        )
        return _Server(config)


def serve_both(clients: FastAPI, control: FastAPI, entrance: Entrance, when_stopping: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends without waiting."""
    listeners = entrance.listeners
    for_clients = entrance.server(clients, on_port=True)
    # However many connections clients hold, the agent comes in.
    apart = replace(entrance, door=Doorkeeper(refused=entrance.door.refused))
    for_control = apart.server(control, on_port=listeners.control_path is None)
    with asyncio.Runner(loop_factory=for_clients.config.get_loop_factory()) as runner:
        runner.run(_serve(for_clients, for_control, listeners, when_stopping))


class _Server(uvicorn.Server):
    """Leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(clients: _Server, control: _Server, listeners: Listeners, when_stopping: Callable[[], None]) -> None:
    def stop() -> None:
        clients.force_exit = clients.should_exit
        clients.should_exit = True
        when_stopping()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    beside = asyncio.create_task(control.serve(sockets=[listeners.control]))
    try:
        await clients.serve(sockets=[listeners.clients])
    finally:
        control.should_exit = True
        await beside
        listeners.close()
