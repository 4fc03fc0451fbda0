"""The engine's events: a bounded ring with sequence numbers, which never waits for a reader.

Guarantee: `append` takes constant time whether nobody reads or many do; sequence numbers rise by one; a reader that
fell behind the ring continues at its oldest event, and sees the gap from the numbers.
"""

import secrets
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from controlplane.contract.reports.engine_event import EngineEvent

DEFAULT_CAPACITY = 65536


class EventLog:
    """Holds the last `capacity` events. Thread-safe."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.boot = secrets.token_hex(8)
        self._ring: deque[EngineEvent] = deque(maxlen=capacity)
        self.closed = False
        self._next = 1
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], None]] = []
        self._consumers: list[Callable[[EngineEvent], None]] = []

    @property
    def oldest(self) -> int:
        """Lowest sequence number still held; the next one when the ring is empty."""
        return self._next - len(self._ring)

    @property
    def newest(self) -> int:
        """Highest sequence number given so far."""
        return self._next - 1

    def append(self, event: dict[str, Any]) -> None:
        """Number the event (without `seq`) and keep it; it belongs to the log from here on."""
        numbered: EngineEvent = event  # type: ignore[assignment]
        with self._lock:
            event["seq"] = self._next
            self._ring.append(numbered)
            self._next += 1
        for consume in self._consumers:
            consume(numbered)
        for wake in self._wakers:
            wake()

    def after(self, seq: int, limit: int = 1000) -> list[EngineEvent]:
        """Up to `limit` events numbered above `seq`, oldest first; from the ring's start when `seq` is older."""
        with self._lock:
            start = max(0, seq + 1 - self.oldest)
            return [self._ring[place] for place in range(start, min(start + limit, len(self._ring)))]

    def resume_point(self, boot: str | None, after: int) -> int:
        """The number to read after, for a reader that saw `after` of `boot`: 0 when those are not this log's."""
        return after if boot == self.boot and 0 <= after <= self.newest else 0

    def add_consumer(self, consume: Callable[[EngineEvent], None]) -> None:
        """Call `consume` with every event, in the thread that appends it: it must be quick and must not raise."""
        self._consumers.append(consume)

    def add_waker(self, wake: Callable[[], None]) -> None:
        """Call `wake` after every event."""
        self._wakers = [*self._wakers, wake]

    def close(self) -> None:
        """Wake every reader for the last time. Takes no lock, so that a signal handler may call it."""
        self.closed = True
        for wake in self._wakers:
            wake()

    def remove_waker(self, wake: Callable[[], None]) -> None:
        self._wakers = [waker for waker in self._wakers if waker != wake]
