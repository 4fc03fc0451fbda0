"""Where the twin is asked: a process of its own for each question, one at a time, within a time.

The twin runs the engine's scheduler, which the service does not import, and computes for seconds, which the service's
own process would be missed for. Who asks the same question meanwhile is told the same answer.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from controlplane.contract.errors import Overloaded
from controlplane.contract.planning.whatif import ForecastUnderWay, TwinTask, WhatIf, WhatIfCreate
from controlplane.whatif.forecasting import Bounds, Forecasting

TIMEOUT_S, VLLM_TIMEOUT_S = 60.0, 180.0
"""vLLM's scheduler plans step by step; the embedded engine's is asked only where a batch changes."""
LEASE_S = 10.0
"""A page asks each second, of which a busy machine or a tab that nobody sees may lose some."""
_RETRY_S = 5.0
_REMEMBERED = 5
"""Forecasts of a pool that say how long one usually takes."""


@dataclass
class TwinDesk:
    """command: starts the twin; it reads a `TwinTask` and writes a `WhatIf` or an error of the contract. vllm_python:
    of an environment with vLLM, whose scheduler it runs for pools of vLLM; None: there is none. lease_s: a forecast
    that nobody waits for, or has asked for in so long, is ended."""

    command: Sequence[str]
    vllm_python: Path | None = None
    timeout_s: float = TIMEOUT_S
    vllm_timeout_s: float = VLLM_TIMEOUT_S
    lease_s: float = LEASE_S
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _now: Forecasting | None = field(default=None, repr=False)
    _took_s: dict[str, deque[float]] = field(default_factory=dict, repr=False)

    def forecast(
        self, asked: WhatIfCreate, gather: Callable[[], TwinTask], wait_s: float | None = None
    ) -> WhatIf | ForecastUnderWay:
        """gather: what the question needs, asked for where it is not under way already. wait_s: for the answer at most;
        None: until it is there. Raises what the twin refuses, `Overloaded` while another question is computed,
        `Unavailable` where the twin fails."""
        with self._lock:
            found = self._joined(asked)
        return (found or self._begun(gather())).told(wait_s)

    def _joined(self, asked: WhatIfCreate) -> Forecasting | None:
        """What computes this question, or has a moment ago; None where the twin is free for it."""
        if self._now is None:
            return None
        if self._now.asked == asked and self._now.joined():
            return self._now
        if not self._now.is_done:
            so_far = f"{self._now.elapsed_s:.0f} s so far"
            raise Overloaded(f"another forecast is being made ({so_far}); try again soon", retry_after_s=_RETRY_S)
        return None

    def _begun(self, task: TwinTask) -> Forecasting:
        """Unless somebody has begun one meanwhile."""
        with self._lock:
            if (found := self._joined(task.asked)) is not None:
                return found
            command = [*self.command, *(() if self.vllm_python is None else ("--vllm-python", str(self.vllm_python)))]
            bounds = Bounds(self.vllm_timeout_s if task.engine == "vllm" else self.timeout_s, self.lease_s)
            took_s = self._took_s.setdefault(task.asked.pool, deque(maxlen=_REMEMBERED))
            usual_s = median(took_s) if took_s else None
            self._now = Forecasting(task, command, bounds, usual_s, took_s.append)
            return self._now
