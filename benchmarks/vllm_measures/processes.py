"""The benchmark's children: started with a log each, held still and let go, counted, and ended whatever happens.

Guarantee: `Nursery.close` ends every process that descends from the benchmark, also one that a child has detached (a
server that an agent started, a proxy): all carry the nursery's mark in their environment. Linux alone (/proc).
"""

import contextlib
import os
import secrets
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.engine_rivals.protocol import ROOT, WorkerFailed, tail
from benchmarks.vllm_measures.proc_files import MARK, all_pids, cpu_s_in, cpu_s_of, group_of, marked, start_tick
from controlplane.terminal.child import die_with_parent

_STOP_S = 20.0


class Child:
    """One process and the group it leads."""

    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self.name, self.log = name, log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def hold(self) -> None:
        """SIGSTOP to the whole group: memory stays, CPU time is nil."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to the whole group, and wait."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM first; after 20 s the group is killed. Held or not."""
        if self.is_alive:
            self.resume()
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        self.kill()

    def pids(self) -> dict[int, int]:
        """Each process of the group with the clock tick of its start: equal twice means that none was restarted."""
        return {pid: start_tick(pid) for pid in all_pids() if group_of(pid) == self.pid}

    def cpu_s(self) -> float:
        """CPU seconds of the group's living processes, all threads."""
        return sum(cpu_s_of(pid) for pid in self.pids())

    def thread_cpu_s(self, prefix: str) -> float | None:
        """CPU seconds of those threads of the group whose name begins so; None when there is none."""
        found: list[float] = []
        for pid in self.pids():
            for task in Path(f"/proc/{pid}/task").glob("*"):
                with contextlib.suppress(OSError):
                    if (task / "comm").read_text(encoding="utf-8").startswith(prefix):
                        found.append(cpu_s_in(task / "stat"))
        return sum(found) if found else None

    def log_end(self) -> str:
        return tail(str(self.log))

    def wait_healthy(self, url: str, limit_s: float, tls: ssl.SSLContext | None = None) -> None:
        """Until GET `url` answers 200; `tls`: what trusts https. Raises `WorkerFailed` with the end of the log."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if not self.is_alive:
                raise WorkerFailed(
                    f"{self.name} ended with {self._process.returncode}; its log ends:\n{self.log_end()}"
                )
            if answers(url, tls):
                return
            time.sleep(0.2)
        raise WorkerFailed(f"{self.name}: not healthy after {limit_s:g} s; its log ends:\n{self.log_end()}")

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


@dataclass
class Nursery:
    """All children of one run; logs and files lie in `folder`."""

    folder: Path
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    _children: list[Child] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """That of a child which needs nothing else."""
        return {**os.environ, MARK: self.mark}

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> Child:
        child = Child(name, command, {**(env or {}), MARK: self.mark}, self.folder / f"{name}.log")
        self._children.append(child)
        return child

    def stop(self, child: Child) -> None:
        """Twice is once."""
        child.stop()
        if child in self._children:
            self._children.remove(child)

    def close(self) -> None:
        """End them all, the last started first, then whatever of them had detached itself."""
        for child in reversed(self._children):
            child.stop()
        self._children.clear()
        self.end_detached()

    def end_detached(self) -> list[int]:
        """SIGKILL to all that carries the mark and is no child of ours any more, until it is gone; its process ids."""
        own = {pid for child in self._children for pid in child.pids()} | {os.getpid()}
        found = [pid for pid in marked(self.mark) if pid not in own]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + _STOP_S
        while set(found) & set(marked(self.mark)) and time.monotonic() < until:
            time.sleep(0.02)
        return found


def answers(url: str, tls: ssl.SSLContext | None = None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5, context=tls) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
