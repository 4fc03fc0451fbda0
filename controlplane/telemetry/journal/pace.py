"""How fast waiting reports are worked off, for an honest Retry-After."""

import time
from collections.abc import Callable

LEAST_S, MOST_S = 1.0, 30.0
SPAN_S = 1.0
"""The pace is measured over spans of this length; half of what is known comes from the last one."""
IDLE_S = 5.0
"""Nothing was asked for in a longer span: it says nothing of the pace."""


class Pace:
    """For one thread. `done` each report that was answered."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since = monotonic()
        self._count = 0
        self._per_s = 0.0

    def done(self, reports: int = 1) -> None:
        self._count += reports
        now = self._monotonic()
        elapsed = now - self._since
        if elapsed >= SPAN_S:
            if elapsed < IDLE_S:
                measured = self._count / elapsed
                self._per_s = measured if not self._per_s else (self._per_s + measured) / 2
            self._since, self._count = now, 0

    def wait_s(self, waiting: int) -> float:
        """Until as many reports as wait now are worked off, within LEAST_S and MOST_S."""
        if not self._per_s:
            return LEAST_S
        return min(max(waiting / self._per_s, LEAST_S), MOST_S)
