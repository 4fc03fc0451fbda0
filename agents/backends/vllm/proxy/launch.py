"""Finding the proxy that runs, or starting one."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agents.backends.vllm.proxy.client import ProxyClient, ProxyUnreachable
from agents.backends.vllm.proxy.exit_status import ExitStatus
from controlplane.contract.errors import Conflict, Unavailable
from controlplane.serving.tls import TlsFiles

ROOT: Final = Path(__file__).resolve().parents[4]  # Where `agents` is imported from.
START_LIMIT_S: Final = 30.0
POLL_S: Final = 0.05
LOG_LINES: Final = 8


async def ensure_proxy(
    host: str,
    port: int,
    socket_path: Path,
    log_path: Path,
    hold_s: float = 120.0,
    *,
    allowed_hosts: Sequence[str] = (),
    pass_paths: Sequence[str] = (),
    tls: TlsFiles | None = None,
    target_ca_file: Path | None = None,
    insecure_http: bool = False,
    end_with_parent: bool = False,
) -> ProxyClient:
    """The proxy on `host:port` that is controlled by `socket_path`, listening; started if there is none.

    A running one is adopted as it is, with the target, hold and limits it has: say `switch` next. A started one has a
    session of its own and outlives this process, unless `end_with_parent` (then it ends with the thread that called).
    Port 0 takes any: `state().port` tells which. `socket_path` and `log_path` need folders that exist.

    Raises `Conflict` when the port is taken (`field` "port"), or when the proxy on that socket listens elsewhere;
    `Unavailable` with the log's end when a new one does not start.
    """
    proxy = ProxyClient(socket_path)
    if await _adopted(proxy, host, port):
        return proxy
    try:
        more = ["--allowed-hosts", ",".join(allowed_hosts), "--pass-paths", ",".join(pass_paths)]
        more += [] if tls is None else ["--tls-cert", str(tls.cert), "--tls-key", str(tls.key)]
        more += [] if target_ca_file is None else ["--target-ca-file", str(target_ca_file)]
        more += ["--insecure-http"] if insecure_http else []
        more += ["--end-with-parent", str(os.getpid())] if end_with_parent else []
        process = _start(host, port, socket_path, log_path, hold_s, more)
    except OSError as error:
        raise Unavailable(f"the proxy on {host}:{port} cannot be started: {error}") from error
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if (status := process.poll()) is not None:
            # Somebody else may have started one on this socket in the same moment: that one is as good.
            if status == ExitStatus.SOCKET_TAKEN and await _adopted(proxy, host, port):
                return proxy
            raise _start_failure(status, host, port, socket_path, log_path)
        if pid := await _adopted(proxy, host, port):
            if pid != process.pid:
                process.terminate()  # Somebody else's was first; this one must not come up once that one has ended.
            # A child that ends while this process lives would stay a zombie if nobody waited for it.
            threading.Thread(target=process.wait, name="reap-vllm-proxy", daemon=True).start()
            return proxy
        await asyncio.sleep(POLL_S)
    process.kill()
    process.wait()
    raise Unavailable(f"the proxy on {host}:{port} did not listen within {START_LIMIT_S:g} s{_log_end(log_path)}")


async def _adopted(proxy: ProxyClient, host: str, port: int) -> int | None:
    """The process of the proxy that answers, if one does."""
    try:
        state = await proxy.state()
    except ProxyUnreachable:
        return None
    if state.stopping:
        raise Conflict(f"the proxy of {proxy.socket_path} (pid {state.pid}) is ending: try again when it has ended")
    if state.host != host or port not in (0, state.port):
        raise Conflict(
            f"the proxy of {proxy.socket_path} (pid {state.pid}) listens on {state.host}:{state.port}, not on "
            f"{host}:{port}: stop it, or use its address",
            field="port",
            socket=str(proxy.socket_path),
        )
    return state.pid


def _start(
    host: str, port: int, socket_path: Path, log_path: Path, hold_s: float, more: Sequence[str]
) -> "subprocess.Popen[bytes]":
    arguments = [
        "--host",
        host,
        "--port",
        str(port),
        "--control",
        str(socket_path.absolute()),
        "--hold-s",
        str(hold_s),
        *more,
    ]
    with log_path.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "agents.backends.vllm.proxy", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _start_failure(status: int, host: str, port: int, socket_path: Path, log_path: Path) -> Conflict | Unavailable:
    if status == ExitStatus.PORT_TAKEN:
        message = (
            f"the proxy cannot listen on {host}:{port}: another program does; choose another port, or stop that one"
        )
        return Conflict(message, field="port", host=host, port=port)
    if status == ExitStatus.SOCKET_TAKEN:
        message = f"another proxy holds the control socket {socket_path}, and does not answer on it"
        return Conflict(message, field="socket_path", socket=str(socket_path))
    return Unavailable(f"the proxy on {host}:{port} did not start (exit status {status}){_log_end(log_path)}")


def _log_end(log_path: Path) -> str:
    lines = log_path.read_text(errors="replace").splitlines()[-LOG_LINES:]
    return f"; the end of {log_path}:\n" + "\n".join(lines) if lines else f"; {log_path} is empty"
