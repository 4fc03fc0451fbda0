"""A worker process that answers one JSON line for each JSON line it is sent.

Guarantees: whatever libraries print goes to the worker's log, never between the answers; a failed request is answered
with its error and leaves the worker alive; a worker that nobody asks does nothing. Standard library alone, because it
runs in every rival's interpreter.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
_LOG_LINES = 15
_STOP_S = 5.0
_SILENCE_S = 600.0

Handler = Callable[..., Any]


class WorkerFailed(Exception):
    """A worker could not do what it was asked; the message ends with what it said."""


class Worker:
    """The asking side. `cores` binds the process and everything it starts."""

    def __init__(self, name: str, python: str, module: str, env: Mapping[str, str], cores: list[int]) -> None:
        self.name = name
        self._log = tempfile.NamedTemporaryFile(prefix=f"bench-{module.rsplit('.', 1)[-1]}-", suffix=".log")  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, "-m", module],
            cwd=ROOT,
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )

    def ask(self, action: str, **arguments: Any) -> Any:
        """Have one action done. Raises `WorkerFailed`."""
        self.send(action, **arguments)
        return self.receive()

    def send(self, action: str, **arguments: Any) -> None:
        """Ask without waiting, so that several workers can load at once; `receive` must follow."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": action, "with": arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise WorkerFailed(f"{self.name}: the process ended\n{self._tail()}") from error

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def receive(self) -> Any:
        """The answer. A worker that says nothing for ten minutes is ended."""
        assert self._process.stdout is not None
        limit = threading.Timer(_SILENCE_S, self._kill)
        limit.start()
        try:
            line = self._process.stdout.readline()
        finally:
            limit.cancel()
        if not line:
            raise WorkerFailed(f"{self.name}: the process ended ({self._process.wait()})\n{self._tail()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerFailed(f"{self.name}: {answer['error']}")
        return answer["ok"]

    def close(self) -> None:
        """End the process and all it started."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._log.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _tail(self) -> str:
        return tail(self._log.name)


def tail(path: str) -> str:
    """The last lines of a log."""
    lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_LOG_LINES:])


def answer_requests(handlers: Mapping[str, Handler]) -> None:
    """The answering side: serve until standard input ends."""
    answers = _private_stdout()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"ok": handlers[asked["do"]](**asked["with"])}
        except Exception as error:  # noqa: BLE001 - told to the asker; the next request may well succeed.
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _private_stdout() -> IO[str]:
    """A stream to the asker; from now on everybody else's standard output is the log."""
    private = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(private, "w", encoding="utf-8")
