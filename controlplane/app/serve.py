"""Runs the service under uvicorn, in this process.

Guarantee: SIGTERM and SIGINT stop accepting, give running requests and background work a second each to end, write what
was taken in, and `run` returns 0; a second signal does not wait.
"""

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import httpx
import uvicorn
from fastapi import FastAPI
from sqlalchemy.exc import OperationalError

from controlplane.api.error_handlers import error_response
from controlplane.app import allocation, garbage
from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract.errors import BadRequest, Unavailable
from controlplane.contract.host_names import LOOPBACK_NAMES, names_of
from controlplane.contract.shown_url import masked, without
from controlplane.fleet.opamp import wire
from controlplane.serving import service_manager
from controlplane.serving.address_gate import AddressGate
from controlplane.serving.answer_headers import AnswerHeaders
from controlplane.serving.guarded_websocket import websocket
from controlplane.serving.host_gate import HostGate
from controlplane.serving.limited_http import end_revoked, protocol
from controlplane.serving.listening_sockets import taken
from controlplane.serving.owned_socket import claim
from controlplane.serving.site_gate import SiteGate
from controlplane.serving.tls import ServerTls, check_exposed

logger = logging.getLogger(__name__)

DRAIN_S = 1
"""For requests under way. A report that is cut off was not acknowledged: it is sent again, and counted once."""
KEEP_ALIVE_S = 75
"""Longer than any report interval: a connection anew for each report costs more than the report."""
WATCH_S = 5.0
"""So long a connection whose certificate is revoked may go on."""

Mount = Callable[[FastAPI], None]
Ready = Callable[[], None]


class Server(uvicorn.Server):
    """uvicorn's server, which tells the application of the stop at once and ends without raising the signal again."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: FastAPI,
        sockets: list[socket.socket],
        local: Path | None = None,
        ready: Ready | None = None,
    ) -> None:
        """`sockets`: bound to the port. `local`: a Unix socket, of mode 600, that is served without TLS beside them.
        `ready` is called once, in a thread, when requests are accepted. Raises Conflict if `local` is taken."""
        super().__init__(config)
        self.service = Service.of(app)
        self._sockets = sockets
        self._ready = ready
        self._local_path = local
        self._local = None if local is None else claim(local, "data_dir")
        self._watch: asyncio.Task[None] | None = None
        self._manager = service_manager.ServiceManager()
        self._telling: asyncio.Task[None] | None = None
        self.accepting = threading.Event()
        """Set once requests are accepted, for those who start the server in a thread."""

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run(self._sockets if sockets is None else sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._local is not None:
            loop = asyncio.get_running_loop()
            self.servers.append(await loop.create_unix_server(self._connection, sock=self._local))
        if self.service.tls is not None:
            self._watch = asyncio.create_task(self._end_revoked(self.service.tls), name="revoked-certificates")
        self.accepting.set()
        self._manager.tell(service_manager.READY)
        self._telling = asyncio.create_task(self._manager.keep_telling(), name="service-manager")
        if self._ready is not None:
            await asyncio.to_thread(self._ready)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._manager.tell(service_manager.STOPPING)
        if self._watch is not None:
            self._watch.cancel()
        await super().shutdown(sockets)
        if self._telling is not None:
            self._telling.cancel()
        if self._local_path is not None:
            self._local_path.unlink(missing_ok=True)

    async def _end_revoked(self, tls: ServerTls) -> None:
        """Look at the certificates' files also while nobody comes, and end the connections that they no longer let
        in."""
        while True:
            try:
                tls.look()
                end_revoked(self.server_state.connections, self.service.door, tls.is_revoked)
            except Exception:  # As the background's work does: the next look tries again.
                logger.exception("the certificates could not be looked at")
            await asyncio.sleep(WATCH_S)

    def _connection(self) -> asyncio.Protocol:
        """What uvicorn makes of a new connection to its own port."""
        made: asyncio.Protocol = self.config.http_protocol_class(
            config=self.config,  # type: ignore[call-arg]
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        return made

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Streams watch this event: they have to end before uvicorn can drain, and the lifespan stops only after it.
        self.service.stop.set()
        super().handle_exit(sig, frame)

    @property
    def port(self) -> int:
        """The port listened on, once started (the setting may be 0)."""
        return int(self.servers[0].sockets[0].getsockname()[1])


def server_of(settings: ServiceSettings, mount: Mount | None = None, ready: Ready | None = None) -> Server:
    """A server that has not started yet. `mount` adds routes to the application (the dashboard).

    Its port is taken before anything is made in the data folder. Raises `Conflict` for a port in use.
    """
    set_up_logging(settings)
    tls = settings.tls
    check_exposed(settings.host, tls, settings.insecure_http)
    sockets = taken(settings.host, settings.port)
    try:
        return _server_on(sockets, settings.model_copy(update={"port": sockets[0].getsockname()[1]}), mount, ready)
    except BaseException:
        for one in sockets:
            one.close()
        raise


def _server_on(
    sockets: list[socket.socket], settings: ServiceSettings, mount: Mount | None, ready: Ready | None
) -> Server:
    tls = settings.tls
    app = create_app(settings)
    if mount is not None:
        mount(app)
    door, secured = Service.of(app).door, Service.of(app).tls
    # Its own dashboard and worker call it by a loopback name, which no page of another name has.
    names = names_of(settings.host, settings.allowed_hosts) | {*LOOPBACK_NAMES}
    named = HostGate(SiteGate(app, door, error_response), names, door, error_response)
    config = uvicorn.Config(
        AnswerHeaders(AddressGate(named, door, error_response)),
        host=settings.host,
        port=settings.port,
        ssl_context_factory=None if secured is None else lambda *_: secured.context,
        forwarded_allow_ips=list(settings.forwarded_allow_ips),
        log_config=None,
        # What uvicorn says at info of its own starts and stops, `ready` and the exit status say.
        log_level="warning" if settings.log_level == "info" else settings.log_level,
        access_log=settings.log_level == "debug",
        http=protocol(door, None if secured is None else secured.is_revoked),
        ws=websocket(door),
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        ws_max_size=wire.MESSAGE_LIMIT_BYTES + 1,
        ws_ping_interval=None,  # Peers that vanish are found by the system, those that hang by their heartbeats.
        server_header=False,
    )
    return Server(config, app, sockets, None if tls is None else settings.local_socket, ready)


def set_up_logging(settings: ServiceSettings) -> None:
    """At the level that is set. No URL that is called is logged with more than its scheme and host."""
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").addFilter(_mask_urls)
    if settings.log_level != "debug":
        # Each tells of every single request or step: too much for a service that calls itself all day.
        for chatty in ("httpx", "alembic"):
            logging.getLogger(chatty).setLevel(logging.WARNING)


def _mask_urls(record: logging.LogRecord) -> bool:
    """A filter of httpx's log, which names each request's whole URL."""
    if isinstance(record.args, tuple):
        record.args = tuple(masked(str(one)) if isinstance(one, httpx.URL) else one for one in record.args)
    return True


def run(settings: ServiceSettings, mount: Mount | None = None, ready: Ready | None = None) -> int:
    """Serve until a signal. Returns the process's exit status: 0, or 1 when the service could not start.

    Raises `BadRequest` (`Unavailable`) that names the setting when its folder or its database cannot be used,
    `Conflict` for a port in use.
    """
    allocation.settle()
    try:
        server = server_of(settings, mount, ready)
    except OSError as error:
        raise BadRequest(f"data_dir: {settings.data_dir} cannot be used: {error}", field="data_dir") from error
    except ImportError as error:
        raise BadRequest(f"database_url: {error}", field="database_url") from error
    except OperationalError as error:
        raise Unavailable(
            f"the database does not answer: {without(settings.url, str(error.orig))}", field="database_url"
        ) from error
    garbage.settle()
    server.run()
    return 0 if server.started else 1
