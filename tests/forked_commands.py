"""`tailwright` command lines as processes of their own, forked from one that has imported everything: a start takes a
quarter of the CPU that it takes by `python -m`.

For tests of what a service does. That it starts as people start it, others see that start it so: those of the stack, of
`tailwright up` itself, and those that kill it.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.demo.engines import TAILWRIGHT
from agents.demo.processes import Child, Processes
from controlplane.terminal.checkout import ROOT
from controlplane.terminal.child import one_thread_each


class Forked:
    """What `Processes` asks of a `subprocess.Popen`."""

    def __init__(self, nursery: "Nursery", pid: int) -> None:
        self._nursery, self.pid = nursery, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ask(child=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired when it runs on after so many seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise subprocess.TimeoutExpired("tailwright", timeout or 0.0)
            watched = os.pidfd_open(self.pid)
            try:
                select.select([watched], [], [], left_s)
            finally:
                os.close(watched)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.command_nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=one_thread_each(),
        )
        assert self._process.stdout is not None and self._process.stdout.readline().strip() == "ready"

    def ask(self, **what: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, words: Sequence[str], log: Path) -> Forked:
        """`tailwright` with these words, in the checkout; what it says is added to `log`."""
        pid = self.ask(words=list(words), environment=one_thread_each(), log=str(log))
        return Forked(self, pid)

    def close(self) -> None:
        """Its children are told to end with it."""
        self._process.communicate(timeout=30)


class ForkedProcesses(Processes):
    """As `Processes`, of `tailwright` commands alone."""

    def __init__(self, log_dir: Path, nursery: Nursery) -> None:
        super().__init__(log_dir)
        self._nursery = nursery

    def start(self, name: str, arguments: Sequence[str]) -> Child:
        assert tuple(arguments[:2]) == TAILWRIGHT
        self.log_dir.mkdir(parents=True, exist_ok=True)
        log = self.log_dir / f"{name}.log"
        child = Child(name, self._nursery.start(arguments[2:], log), log)  # type: ignore[arg-type]
        self.children.append(child)
        return child


@contextmanager
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    try:
        yield made
    finally:
        made.close()
