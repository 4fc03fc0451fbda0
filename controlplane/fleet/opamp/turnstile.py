"""Who of many that come at once is let in, and when the others are to come. Pure but for counting; the clock is handed
in.

Guarantees: at most `MOST_INSIDE` are inside. Whoever would be let in within `WAITED_S` waits, in the order of coming:
those inside are never fewer than they could be. Each of the others is told a moment of its own, one after another at
the pace at which those inside get done, soon at first and at most `LATEST_S` away: after an outage a fleet comes back
as fast as it can be served, and nobody tries in vain for long.
"""

import time
from collections import deque
from collections.abc import Callable

import anyio

MOST_INSIDE = 256
WAITED_S = 5.0
"""Less than any agent waits for an answer to its handshake."""
MOST_WAITING = 4096
SOONEST_S, LATEST_S = 2.0, 20.0
FIRST_A_SECOND = 500.0
"""Get done, before it is known: rather too many, for those who come too soon wait."""
_SPAN_S = 1.0
_SPANS = 10
"""The best of the last of these is the pace: what is served while thousands are told to come later is less than what
will be served when they do."""


class Place:
    """Inside once it is reached, until it is left, which may be told again and earlier."""

    def __init__(self, leave: "Callable[[Place], None]") -> None:
        self._leave = leave
        self._is_held = True
        self.reached = anyio.Event()

    def leave(self) -> None:
        if self._is_held:
            self._is_held = False
            self._leave(self)


class Turnstile:
    """For one thread."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, most: int = MOST_INSIDE, waiting: int = MOST_WAITING
    ) -> None:
        self._monotonic, self._most, self._most_waiting = monotonic, most, waiting
        self._inside = 0
        self._waiting: dict[Place, None] = {}  # In the order of coming.
        self._next_s = -LATEST_S
        self._began_s, self._got_done = monotonic(), 0
        self._a_second = deque([FIRST_A_SECOND], maxlen=_SPANS)

    @property
    def pace_s(self) -> float:
        """Between two that get done."""
        return 1 / max(self._a_second)

    def come(self) -> Place | float:
        """A place, which may have to be waited for, or in how many seconds to come again."""
        if self._inside < self._most:
            self._inside += 1
            place = Place(self._done)
            place.reached.set()
            return place
        if len(self._waiting) < min(self._most_waiting, WAITED_S / self.pace_s):
            place = Place(self._done)
            self._waiting[place] = None
            return place
        now_s = self._monotonic()
        self._next_s = min(max(self._next_s, now_s + SOONEST_S) + self.pace_s, now_s + LATEST_S)
        return self._next_s - now_s

    @property
    def waiting(self) -> int:
        """How many have a place that they have not reached."""
        return len(self._waiting)

    def open(self) -> None:
        """Let in whoever waits: nobody is served any more."""
        waiting, self._waiting = self._waiting, {}
        self._inside += len(waiting)
        for place in waiting:
            place.reached.set()

    def _done(self, place: Place) -> None:
        if place in self._waiting:
            del self._waiting[place]
            return
        self._count()
        if self._waiting and self._inside <= self._most:
            following = next(iter(self._waiting))
            del self._waiting[following]
            following.reached.set()
        else:
            self._inside -= 1

    def _count(self) -> None:
        now_s = self._monotonic()
        if self._inside <= self._most / 2:  # It is those who come that set the pace.
            self._began_s, self._got_done = now_s, 0
            return
        self._got_done += 1
        if now_s - self._began_s >= _SPAN_S:
            self._a_second.append(self._got_done / (now_s - self._began_s))
            self._began_s, self._got_done = now_s, 0
