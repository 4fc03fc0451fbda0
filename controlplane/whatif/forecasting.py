"""One forecast under way: the twin in a process of its own, which ends when nobody asks for its answer any more.

Guarantee: whoever asks is told what came of it, or how long it has taken so far; the process outlives neither its time
nor `lease_s` without anybody who waits or asks again, nor the service.
"""

import logging
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import IO

from controlplane.contract.error_answer import ErrorAnswer
from controlplane.contract.errors import BadRequest, NotFound, TailwrightError, Unavailable
from controlplane.contract.planning.whatif import ForecastUnderWay, TwinTask, WhatIf
from controlplane.terminal.checkout import ROOT
from controlplane.terminal.child import die_with_parent, one_thread_each

KEPT_S = 10.0
"""How long an answer is kept for who asks again: about as long as between two who wait for it."""
_LOOKED_S = 0.5
"""How often it is looked whether anybody is there."""
_REFUSALS: dict[str, type[TailwrightError]] = {cls.code: cls for cls in (BadRequest, NotFound)}
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bounds:
    """limit_s: of the whole forecast. lease_s: for which nobody need ask."""

    limit_s: float
    lease_s: float


class Forecasting:
    """Begun when it is made, by somebody who waits for it (`told`)."""

    def __init__(
        self,
        task: TwinTask,
        command: Sequence[str],
        bounds: Bounds,
        usual_s: float | None = None,
        tell_took: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        """command: starts the twin. tell_took: hears of the seconds that it took to an answer."""
        self.asked = task.asked
        self._bounds, self._usual_s, self._tell_took = bounds, usual_s, tell_took
        self._lock = threading.Lock()
        self._began_s = self._heard_s = time.monotonic()
        self._waiting, self._left = 1, False
        self._done: Future[WhatIf] = Future()
        self._done_s = 0.0
        # A thread that ends with its process: the kernel ends the one with the other.
        threading.Thread(target=self._run, args=(command, task), name="twin", daemon=True).start()

    @property
    def is_done(self) -> bool:
        return self._done.done()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def joined(self) -> bool:
        """Whether its answer is there for one more, who then waits for it (`told`)."""
        with self._lock:
            if self._left or (self.is_done and time.monotonic() - self._done_s > KEPT_S):
                return False
            self._waiting += 1
            return True

    def told(self, wait_s: float | None) -> WhatIf | ForecastUnderWay:
        """What came of it within `wait_s`; None: however long that takes. Raises what the twin refuses, `Unavailable`
        where it fails or is late."""
        try:
            return self._done.result(wait_s)
        except TimeoutError:
            return ForecastUnderWay(elapsed_s=self.elapsed_s, usual_s=self._usual_s, limit_s=self._bounds.limit_s)
        finally:
            with self._lock:
                self._waiting -= 1
                self._heard_s = time.monotonic()

    def _run(self, command: Sequence[str], task: TwinTask) -> None:
        try:
            answer = self._answered(command, task.model_dump_json().encode())
        except Exception as error:  # noqa: BLE001 - raised where it is waited for.
            self._done_s = time.monotonic()
            self._done.set_exception(error)
        else:
            self._tell_took(self.elapsed_s)
            self._done_s = time.monotonic()
            self._done.set_result(answer)

    def _answered(self, command: Sequence[str], task: bytes) -> WhatIf:
        # A file, and no pipe: what a pipe has not taken by the first look, `communicate` never sends.
        with tempfile.TemporaryFile() as asked:
            asked.write(task)
            asked.seek(0)
            process = self._started(command, asked)
        with process:
            try:
                said, complaint = self._communicated(process)
            except Unavailable:
                process.kill()
                raise
        if process.returncode:
            told = complaint[-2000:].decode(errors="replace")
            _log.error("the twin ended with status %d: %s", process.returncode, told)
            raise Unavailable("the twin failed; the service's log says how")
        return _read(said)

    def _started(self, command: Sequence[str], asked: IO[bytes]) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(
                command,
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=ROOT,
                env=one_thread_each(),
                preexec_fn=die_with_parent,
            )
        except OSError as error:
            raise Unavailable(f"the twin could not be started: {error}") from error

    def _communicated(self, process: "subprocess.Popen[bytes]") -> tuple[bytes, bytes]:
        while True:
            left_s = max(0.0, self._bounds.limit_s - self.elapsed_s)
            try:
                return process.communicate(timeout=min(_LOOKED_S, left_s))
            except subprocess.TimeoutExpired:
                self._go_on()

    def _go_on(self) -> None:
        """Raises `Unavailable` where it is late, or nobody is there."""
        if self.elapsed_s >= self._bounds.limit_s:
            raise Unavailable(
                f"the twin took longer than {self._bounds.limit_s:g} s; ask about a shorter span (window_s)",
                field="window_s",
            )
        if self._is_left():
            raise Unavailable("nobody asked for this forecast any more, so it was ended")

    def _is_left(self) -> bool:
        with self._lock:
            self._left = not self._waiting and time.monotonic() - self._heard_s > self._bounds.lease_s
            return self._left


def _read(answer: bytes) -> WhatIf:
    if answer.startswith(b'{"error"'):
        told = ErrorAnswer.model_validate_json(answer).error
        raise _REFUSALS.get(told.code, BadRequest)(told.message, **told.detail)
    return WhatIf.model_validate_json(answer)
