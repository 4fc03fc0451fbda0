"""Who of many that come at once is let in, and when the others are to come: a queue in which nobody has to stand. Pure
but for counting; the clock is handed in.

Guarantees: at most `MOST_INSIDE` are inside. Each of the others is told a moment of its own, one after another at the
pace at which those inside get done (a little slower, so that there is room when they come), soon at first and at most
`LATEST_S` away: after an outage a fleet comes back as fast as it can be served, and nobody tries in vain for long.
"""

import time
from collections.abc import Callable

MOST_INSIDE = 256
SOONEST_S, LATEST_S = 2.0, 120.0
FIRST_PACE_S = 1 / 200
"""Between two that get done, before it is known."""
_SLACK = 1.25
_LONGEST_GAP_S = 1.0
_WEIGHT = 0.02
"""Of one gap in the pace."""


class Place:
    """Inside until it is left, which may be told again."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave
        self._is_held = True

    def leave(self) -> None:
        if self._is_held:
            self._is_held = False
            self._leave()


class Turnstile:
    """For one thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, most: int = MOST_INSIDE) -> None:
        self._monotonic, self._most = monotonic, most
        self._inside = 0
        self._next_s = self._left_s = -LATEST_S
        self.pace_s = FIRST_PACE_S

    def come(self) -> Place | float:
        """A place, or in how many seconds to come again."""
        if self._inside < self._most:
            self._inside += 1
            return Place(self._leave)
        now_s = self._monotonic()
        self._next_s = min(max(self._next_s, now_s + SOONEST_S) + self.pace_s * _SLACK, now_s + LATEST_S)
        return self._next_s - now_s

    def _leave(self) -> None:
        now_s = self._monotonic()
        if self._inside > self._most / 2:  # Else it is those who come that set the pace.
            gap_s = min(now_s - self._left_s, _LONGEST_GAP_S)
            self.pace_s += (gap_s - self.pace_s) * _WEIGHT
        self._left_s = now_s
        self._inside -= 1
