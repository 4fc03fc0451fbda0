"""Letters of one destination on their way, several at once: which is next, what is to be written, when it is enough.

Thread-safe. Guarantees: each letter is handed out once; none after one that says that the destination is to rest, nor
one whose lease could run out under way. No two letters of a batch are of one alert (`OutboxQueue.take`), so that their
order among each other does not matter.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from controlplane.alerts.channels.channel import Outcome
from controlplane.alerts.notify.one_attempt import DEADLINE_S, Attempt
from controlplane.alerts.notify.outbox_queue import Done, Lease
from controlplane.alerts.notify.pacing import OUTAGE
from controlplane.contract.clock import Clock

ABREAST = 8
"""Letters under way at once to a destination that works, a thread for every two of a batch: one at a time a receiver
200 ms away gets five a second, and a flood, or what gathered while the service was down, holds its pages up. The first
of a batch goes alone, and so do all after one that failed."""
RECORDED_AFTER, RECORDED_AFTER_S = 10, 0.5
"""What was sent is written after so many letters, or so long: whoever dies before sends these once more."""
SLOW_S = 1.0
"""A failure that took so long holds the others' threads up: nothing more is tried there at once."""


class Batch:
    """`error`: what went wrong on this side, if anything did; nothing more is handed out then.

    `writing` is held by whoever writes: a destination takes one of the database's connections, however many letters are
    under way.
    """

    def __init__(self, leases: Sequence[Lease], clock: Clock, closing: Callable[[], bool]) -> None:
        self._left: Iterator[Lease] = iter(leases)
        self._size = len(leases)
        self._clock, self._closing = clock, closing
        self._failures = leases[0].failures
        self._lock, self.writing = threading.Lock(), threading.Lock()
        self._done: list[Done] = []
        self._recorded_at = time.monotonic()
        self._over = False
        self.error: BaseException | None = None

    @property
    def helpers(self) -> int:
        """Of how many more threads it is worth the while, once the first letter has been tried."""
        with self._lock:
            return 0 if self._failures or self._over else max(0, min(ABREAST, self._size // 2) - 1)

    def next(self, *, helping: bool = False) -> Lease | None:
        """The next to be tried; None: no more is, or not by a helper."""
        with self._lock:
            if self._over or self._closing() or (helping and self._failures):
                return None
            lease = next(self._left, None)
            if lease is not None and lease.until - self._clock() < timedelta(seconds=DEADLINE_S):
                self._over, self._left = True, iter([lease, *self._left])
                return None
            return lease

    def note(self, done: Done, took_s: float) -> list[Done]:
        """What came of one; the answer is what is to be written now."""
        with self._lock:
            self._done.append(done)
            attempt = done.attempt
            self._failures = 0 if attempt.outcome is Outcome.SENT else self._failures + 1
            stops = attempt.outcome is Outcome.RETRY and _stops(attempt, self._failures, took_s)
            self._over = self._over or stops
            due = stops or len(self._done) >= RECORDED_AFTER
            return self._take() if due or time.monotonic() - self._recorded_at >= RECORDED_AFTER_S else []

    def fail(self, error: BaseException) -> None:
        with self._lock:
            self._over, self.error = True, self.error or error

    def unwritten(self) -> list[Done]:
        """What came of the others, to be written at the end."""
        with self._lock:
            return self._take()

    def untried(self) -> list[Lease]:
        """What is left, at the end."""
        with self._lock:
            return list(self._left)

    def _take(self) -> list[Done]:
        done, self._done, self._recorded_at = self._done, [], time.monotonic()
        return done


def _stops(attempt: Attempt, failures: int, took_s: float) -> bool:
    """Whether a failure ends the batch: one that fails now and then, and at once, goes on with its other letters."""
    return failures >= OUTAGE or attempt.retry_after_s is not None or took_s >= SLOW_S
