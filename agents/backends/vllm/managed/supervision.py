"""When a managed server is started, stopped and started again. Pure: time is given, waits are drawn by the caller.

Guarantee: never a start while a server lives; after a death the next start waits, longer each time, until a server has
served steadily; a start is given up only after its whole time, a serving one only after failing all of `unhealthy_s`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

STEADY_S = 60.0
"""After so long in service a server's next death is a new story: the waits begin anew."""
REMEMBERED_S = 300.0


class Phase(StrEnum):
    """Where the server's life stands."""

    IDLE = "idle"  # None lives, one is due now.
    BACKING_OFF = "backing off"  # None lives, the next start waits.
    STARTING = "starting"
    SERVING = "serving"
    UNWELL = "unwell"  # It lives and does not answer as it should.
    STOPPING = "stopping"  # It was given up and is being ended.


class Act(StrEnum):
    """What to do now."""

    WAIT = "wait"
    START = "start"
    STOP = "stop"


@dataclass(frozen=True)
class Patience:
    """Seconds."""

    start_timeout_s: float
    unhealthy_s: float


class Supervision:
    """One server's life. `since` is when the phase began; `failed_starts` counts starts in a row that never served."""

    def __init__(self, patience: Patience, next_wait_s: Callable[[int], float]) -> None:
        self._patience = patience
        self._next_wait_s = next_wait_s
        self._next_start = 0.0
        self._tries = 0
        self._deaths: deque[float] = deque(maxlen=100)
        self._served = False  # The server whose life this is, ever.
        self.phase = Phase.IDLE
        self.since = 0.0
        self.failed_starts = 0

    def observe(self, now: float, *, alive: bool, healthy: bool) -> Act:
        """What is seen at `now` (monotonic seconds) decides what to do; START and STOP are taken as done."""
        if not alive:
            return self._none_lives(now)
        if healthy:
            if self.phase is not Phase.SERVING:
                self.replaced(now)
            elif now - self.since >= STEADY_S:
                self._tries = 0
            return Act.WAIT
        return self._not_healthy(now)

    def replaced(self, now: float) -> None:
        """It serves: it came up, or a change has put another, healthy server in its place."""
        self._enter(Phase.SERVING, now)
        self._served = True
        self.failed_starts = 0

    def deaths_within(self, now: float, span_s: float = REMEMBERED_S) -> int:
        """How often a server died or was given up lately."""
        return sum(1 for moment in self._deaths if now - moment <= span_s)

    def next_start_in_s(self, now: float) -> float:
        """The wait that is left while backing off."""
        return max(self._next_start - now, 0.0) if self.phase is Phase.BACKING_OFF else 0.0

    def _none_lives(self, now: float) -> Act:
        if self.phase is Phase.IDLE or (self.phase is Phase.BACKING_OFF and now >= self._next_start):
            self._enter(Phase.STARTING, now)
            self._served = False
            return Act.START
        if self.phase is not Phase.BACKING_OFF:
            self.failed_starts += not self._served
            self._deaths.append(now)
            self._next_start = now + self._next_wait_s(self._tries)
            self._tries += 1
            self._enter(Phase.BACKING_OFF, now)
        return Act.WAIT

    def _not_healthy(self, now: float) -> Act:
        if self.phase is Phase.SERVING:
            self._enter(Phase.UNWELL, now)
        elif self.phase in (Phase.IDLE, Phase.BACKING_OFF):
            self._enter(Phase.STARTING, now)  # One that was found running.
        elif self.phase is Phase.STOPPING:
            return Act.STOP
        patience = self._patience
        limit_s = patience.start_timeout_s if self.phase is Phase.STARTING else patience.unhealthy_s
        if now - self.since < limit_s:
            return Act.WAIT
        self._enter(Phase.STOPPING, now)
        return Act.STOP

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase, self.since = phase, now
