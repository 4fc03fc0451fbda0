"""The served contestants as processes of their own: started once, each held still while the other is measured.

Holding still is SIGSTOP to the process group: memory stays, CPU time is nil, and no minute is lost to another start.
"""

import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.engine_rivals.protocol import ROOT, WorkerFailed, tail

HOST = "127.0.0.1"
MODEL = "model"
_STOP_S = 20.0


class Server:
    """One serving process group on a port of its own, bound to `cores`."""

    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str], cores: list[int], port: int) -> None:
        self.name, self.port = name, port
        self._log = tempfile.NamedTemporaryFile(prefix="bench-server-", suffix=".log")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )

    def wait_healthy(self, limit_s: float = 300.0) -> None:
        """Raises `WorkerFailed` with the end of its log."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise WorkerFailed(f"{self.name}: ended with {self._process.returncode}\n{tail(self._log.name)}")
            try:
                with urllib.request.urlopen(f"http://{HOST}:{self.port}/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.5)
        raise WorkerFailed(f"{self.name}: not healthy after {limit_s:g} s\n{tail(self._log.name)}")

    def hold(self) -> None:
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End the whole group, held or not."""
        if self._process.poll() is None:
            self.resume()
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()


def free_port() -> int:
    """From below the range of which the kernel takes one for any outgoing connection: it stays free over a restart."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split()[0])
    while True:
        port = random.SystemRandom().randrange(10_000, lowest if lowest > 12_000 else 65_536)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port
