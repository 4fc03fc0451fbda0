"""The life of one proxy process: listen, serve, end."""

import asyncio
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from agents.backends.vllm.proxy.control import Control
from agents.backends.vllm.proxy.forwarding import Forwarder
from agents.backends.vllm.proxy.incoming import request_of
from agents.backends.vllm.proxy.limited_clients import HEAD_FIELDS, LimitedServer
from agents.backends.vllm.proxy.options import Options
from agents.backends.vllm.proxy.switchboard import Switchboard
from agents.backends.vllm.proxy.upstream import HEADER_BYTES, connect_to_servers
from controlplane.contract.errors import BadRequest
from controlplane.serving.limits import Doorkeeper, ServerLimits
from controlplane.serving.owned_socket import claim
from controlplane.serving.tls import check_exposed, client_context, context_of, tls_files
from controlplane.terminal.parent_death import ask_for_sigterm

BACKLOG = 1024
CUT_S = 0.5  # For handlers to notice that they are cut, when the limit of a stop has passed.

log = logging.getLogger("tailwright.vllm_proxy")


async def serve(wanted: Options) -> None:
    """Serve until SIGTERM, SIGINT or `POST /stop`.

    The control socket answers only when the port listens, and until the last request has ended. SIGTERM waits for
    running requests `wanted.stop_limit_s`, a stop over the control socket without limit. Raises `Conflict` when another
    proxy has the control socket and `OSError` when the address cannot be had; then nothing has been touched.
    Raises `BadSettings` where the certificate or the file of targets' authorities cannot be used, and for an address
    that other machines reach without a certificate, unless `wanted.insecure_http`.
    """
    tls = tls_files(wanted.tls_cert, wanted.tls_key, None)
    check_exposed(wanted.host, tls, wanted.insecure_http)
    context = None if tls is None else context_of(tls)
    trusted = client_context(wanted.target_ca_file, field="target_ca_file")
    if wanted.parent_pid is not None:
        _end_with_parent(wanted.parent_pid)
    control_socket = claim(wanted.control, "--control")
    _allow_many_connections()
    board = Switchboard(limits=wanted.limits, target=wanted.target)
    door = Doorkeeper(ServerLimits(head_fields=HEAD_FIELDS, head_bytes=HEADER_BYTES))
    stop_asked, cut = asyncio.Event(), asyncio.Event()
    async with connect_to_servers(trusted) as servers:
        forwarder = Forwarder(board, servers, wanted, trusted)
        clients = web.ServerRunner(
            LimitedServer(
                door,
                forwarder.handle,
                request_factory=request_of,
                handler_cancellation=True,
                access_log=None,
                auto_decompress=False,
                max_line_size=HEADER_BYTES,
                max_field_size=HEADER_BYTES,
            ),
            shutdown_timeout=CUT_S,
        )
        await clients.setup()
        listening = web.TCPSite(clients, wanted.host, wanted.port, backlog=BACKLOG, ssl_context=context)
        try:
            await listening.start()
        except OSError:
            wanted.control.unlink()
            raise

        def stop() -> None:
            board.stop()
            forwarder.changed()
            stop_asked.set()

        control = Control(
            board,
            forwarder,
            door,
            (wanted.host, listening.port),
            stop,
            by_tls=tls is not None,
            target_ca_file=wanted.target_ca_file,
        )
        steering = await _control_site(control, control_socket)
        _end_on_signals(stop, cut, wanted.stop_limit_s)
        log.info(
            "pid %d listens on %s:%d, controlled by %s, target %s",
            os.getpid(), wanted.host, listening.port, wanted.control, wanted.target or "not told yet",
        )  # fmt: skip
        await stop_asked.wait()
        log.info("ending: no new connections, %d requests are open", sum(board.in_flight().values()) + board.waiting)
        await listening.stop()
        await _either(forwarder.idle(), cut.wait())
        await clients.cleanup()
        wanted.control.unlink(missing_ok=True)
        await steering.cleanup()
    log.info("ended: %d requests, failed %s", board.requests, {name.value: n for name, n in board.failed.items()})


def _end_with_parent(parent_pid: int) -> None:
    """Have the kernel send this process a SIGTERM when the thread that started it ends, however it ends (Linux only).

    Sends it at once when `parent_pid` is no longer the parent.
    """
    if sys.platform != "linux":
        raise BadRequest("--end-with-parent: works on Linux only; leave it out", field="end_with_parent")
    ask_for_sigterm()
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGTERM)


def _allow_many_connections() -> None:
    """Each request has two sockets, and the usual soft limit is 1,024 open files: raise it as far as one may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _control_site(control: Control, bound: socket.socket) -> web.AppRunner:
    runner = web.AppRunner(control.app(), access_log=None, shutdown_timeout=CUT_S)
    await runner.setup()
    await web.SockSite(runner, bound).start()
    return runner


def _end_on_signals(stop: Callable[[], None], cut: asyncio.Event, limit_s: float) -> None:
    loop = asyncio.get_running_loop()

    def end(name: str) -> None:
        log.info("%s: running requests have %g s", name, limit_s)
        stop()
        loop.call_later(limit_s, cut.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number.name)


async def _either(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of them does; the others are cancelled."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
