"""The service's periodic work: each tick in a thread of its own.

Guarantee: an exception never ends a loop; it is logged, counted and shown (/readyz), and the next period tries again.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.contract.clock import Clock

logger = logging.getLogger(__name__)

STUCK_S = 30.0
"""A deed that has not ended after so long counts as failing while it lasts."""
JOIN_TIMEOUT_S = 1.0
"""All that a tick does is either committed or done again by the next process, so none is waited for any longer."""


def giving_way(act: Callable[[datetime], object], busy: Callable[[], bool]) -> Callable[[datetime], None]:
    """The deed, put off by a period where `busy` says so, and never twice in a row."""
    put_off = False

    def run(now: datetime) -> None:
        nonlocal put_off
        put_off = not put_off and busy()
        if not put_off:
            act(now)

    return run


@dataclass
class Tick:
    """One periodic deed. `act` is called with the present time, every `period_s` seconds after it has ended."""

    name: str
    period_s: float
    act: Callable[[datetime], object]
    runs: int = 0
    failures: int = 0
    failed: bool = False  # The last run that has ended.
    last_error: str = ""
    last_run: datetime | None = None
    last_duration_s: float = 0.0
    running_since_s: float | None = None  # On the monotonic clock.

    @property
    def running_s(self) -> float:
        """How long the present run has been going on; 0 between runs."""
        since_s = self.running_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    @property
    def stuck(self) -> bool:
        return self.running_s > STUCK_S

    @property
    def failing(self) -> bool:
        """The last run has failed, or the present one does not end."""
        return self.failed or self.stuck

    def run(self, now: datetime) -> None:
        """Act once; what goes wrong is kept, never raised."""
        began = self.running_since_s = time.monotonic()
        try:
            self.act(now)
            self.failed = False
        except Exception as error:
            logger.exception("the background task %s failed", self.name)
            self.failures += 1
            self.failed = True
            self.last_error = type(error).__name__
        self.runs += 1
        self.last_run = now
        self.last_duration_s = time.monotonic() - began
        self.running_since_s = None


class Background:
    """Starts and stops the ticks. No deed begins once `stopping` is set, by whomever."""

    def __init__(self, ticks: Sequence[Tick], clock: Clock, stopping: threading.Event | None = None) -> None:
        self.ticks = tuple(ticks)
        self._clock = clock
        self._stop = threading.Event() if stopping is None else stopping
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for tick in self.ticks:
            thread = threading.Thread(target=self._loop, args=(tick,), name=f"tick-{tick.name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Let each running deed end; a deed that takes longer than `JOIN_TIMEOUT_S` is left behind."""
        self._stop.set()
        until = time.monotonic() + JOIN_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                logger.info("%s is left behind", thread.name)
        self._threads.clear()

    def report(self) -> dict[str, dict[str, Any]]:
        """Per tick: runs, failures, the kind of the last error (its text stays in the log), and whether it is stuck."""
        return {
            tick.name: {
                "runs": tick.runs,
                "failures": tick.failures,
                "failing": tick.failing,
                "stuck": tick.stuck,
                "last_error": tick.last_error,
                "last_run": None if tick.last_run is None else tick.last_run.isoformat(),
                "last_duration_s": round(tick.last_duration_s, 4),
            }
            for tick in self.ticks
        }

    def _loop(self, tick: Tick) -> None:
        while not self._stop.is_set():
            tick.run(self._clock())
            self._stop.wait(tick.period_s)
