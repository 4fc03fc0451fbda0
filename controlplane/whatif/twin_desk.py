"""Where the twin is asked: a process of its own for each question, one at a time, within a time.

The twin runs the engine's scheduler, which the service does not import, and computes for seconds, which the service's
own process would be missed for.
"""

import logging
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.contract.error_answer import ErrorAnswer
from controlplane.contract.errors import BadRequest, NotFound, Overloaded, TailwrightError, Unavailable
from controlplane.contract.planning.whatif import TwinTask, WhatIf
from controlplane.terminal.checkout import ROOT
from controlplane.terminal.child import die_with_parent, one_thread_each

TIMEOUT_S, VLLM_TIMEOUT_S = 60.0, 180.0
"""vLLM's scheduler plans step by step; the embedded engine's is asked only where a batch changes."""
_RETRY_S = 5.0
_REFUSALS: dict[str, type[TailwrightError]] = {cls.code: cls for cls in (BadRequest, NotFound)}
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TwinDesk:
    """command: starts the twin; it reads a `TwinTask` and writes a `WhatIf` or an error of the contract. vllm_python:
    of an environment with vLLM, whose scheduler it runs for pools of vLLM; None: there is none."""

    command: Sequence[str]
    vllm_python: Path | None = None
    timeout_s: float = TIMEOUT_S
    vllm_timeout_s: float = VLLM_TIMEOUT_S
    _taken: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def forecast(self, task: TwinTask) -> WhatIf:
        """Raises what the twin refuses, `Overloaded` while another is asked, `Unavailable` where it fails."""
        if not self._taken.acquire(blocking=False):
            raise Overloaded("another forecast is being made; try again soon", retry_after_s=_RETRY_S)
        timeout_s = self.vllm_timeout_s if task.engine == "vllm" else self.timeout_s
        try:
            done = subprocess.run(
                [*self.command, *self._options()],
                input=task.model_dump_json().encode(),
                capture_output=True,
                timeout=timeout_s,
                cwd=ROOT,
                env=one_thread_each(),
                preexec_fn=die_with_parent,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"the twin took longer than {timeout_s:g} s; ask about a shorter span (window_s)", field="window_s"
            ) from error
        except OSError as error:
            raise Unavailable(f"the twin could not be started: {error}") from error
        finally:
            self._taken.release()
        if done.returncode:
            _log.error(
                "the twin ended with status %d: %s", done.returncode, done.stderr[-2000:].decode(errors="replace")
            )
            raise Unavailable("the twin failed; the service's log says how")
        return _read(done.stdout)

    def _options(self) -> Sequence[str]:
        return () if self.vllm_python is None else ("--vllm-python", str(self.vllm_python))


def _read(answer: bytes) -> WhatIf:
    if answer.startswith(b'{"error"'):
        told = ErrorAnswer.model_validate_json(answer).error
        raise _REFUSALS.get(told.code, BadRequest)(told.message, **told.detail)
    return WhatIf.model_validate_json(answer)
