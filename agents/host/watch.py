"""Takes a sample of the host at the end of each window, and keeps it until a report takes it along.

Guarantee: a sample belongs to the window that it covers most of, whenever it was taken; measuring runs in a thread, so
that neither the engine's events nor the reports wait for it.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from agents.host.host_sampler import Sampler
from agents.host.snapshot import Figures
from controlplane.contract.metrics import WINDOW_S

log = logging.getLogger(__name__)

BEFORE_END_S = 0.25
"""So long before a window's end its sample is taken: it is there when the report of the window is made."""
KEPT = 24
"""Samples kept while no report goes out, two minutes: an idle engine's host is not told of for ever after."""


class HostWatch:
    """Call `take` for what was measured and not taken yet: window number to figures."""

    def __init__(self, sampler: Sampler, window_s: float = WINDOW_S, now: Callable[[], float] = time.time) -> None:
        self._sampler = sampler
        self._window_s = window_s
        self._now = now
        self._kept: deque[tuple[int, Figures]] = deque(maxlen=KEPT)

    async def run(self) -> None:
        """Sample for ever."""
        while True:
            await asyncio.sleep(self._until_next_s())
            await asyncio.to_thread(self.sample)

    def sample(self) -> None:
        """Take one sample. A fault of the reading costs the window's figures, never the agent."""
        number = self.window_of(self._now())
        try:
            found = self._sampler.sample()
        except (OSError, ValueError):
            log.exception("the host cannot be measured in this window")
            return
        if found:
            self._kept.append((number, found))

    def take(self) -> dict[int, Figures]:
        """What was measured since the last call."""
        taken: dict[int, Figures] = {}
        while self._kept:
            number, found = self._kept.popleft()
            taken[number] = found
        return taken

    def window_of(self, time_s: float) -> int:
        """The number, in `WINDOW_S` since the epoch, of the window that ends nearest to a time."""
        span = round((time_s + BEFORE_END_S) / self._window_s) - 1
        return round((span + 1) * self._window_s / WINDOW_S) - 1

    def _until_next_s(self) -> float:
        passed_s = (self._now() + BEFORE_END_S) % self._window_s
        return self._window_s - passed_s + 0.001
