"""Tells a thing when it happens, and how often it happened again once a period (deduplication of log lines).

Guarantee: each time that a thing is noted is in exactly one line's count, but for those that a killed process had not
told yet. At most `limit` things are held: one more has the oldest told and let go.
"""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass
class _Held:
    since_s: float
    again: int = 0


class Repeats(Generic[K]):
    """Thread-safe. `tell` is called with a thing and how often it came again since it was last told: 0 for the first
    time. A thing that does not come again for a period is forgotten, and is new when it comes."""

    def __init__(
        self,
        tell: Callable[[K, int], None],
        period_s: float,
        limit: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell, self._period_s, self._limit, self._monotonic = tell, period_s, limit, monotonic
        self._held: dict[K, _Held] = {}  # Who was told earliest is first.
        self._lock = threading.Lock()

    @property
    def full(self) -> bool:
        """Whether one more would have another let go."""
        return len(self._held) >= self._limit

    def note(self, what: K) -> None:
        with self._lock:
            held = self._held.get(what)
            if held is not None:
                held.again += 1
                return
            gone = [self._oldest()] if self.full else []
            self._held[what] = _Held(self._monotonic())
        self._tell(what, 0)
        self._say(gone)

    def tell_due(self) -> None:
        """Tell what came again, of all that were last told a period ago."""
        due = []
        with self._lock:
            now_s = self._monotonic()
            while self._held and next(iter(self._held.values())).since_s <= now_s - self._period_s:
                due.append(self._oldest())
            self._held.update((what, _Held(now_s)) for what, again in due if again)
        self._say(due)

    def tell_all(self) -> None:
        """Tell what came again, of everything: at the end."""
        with self._lock:
            left = [self._oldest() for _ in range(len(self._held))]
        self._say(left)

    def _oldest(self) -> tuple[K, int]:
        what = next(iter(self._held))
        return what, self._held.pop(what).again

    def _say(self, told: list[tuple[K, int]]) -> None:
        for what, again in told:
            if again:
                self._tell(what, again)
