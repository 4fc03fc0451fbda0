"""How often something may happen: so many times in a minute for each key. Thread-safe.

Guarantee: of any minute, at most `most` are allowed for a key, whatever the others do; keys that are not heard of for a
while take no memory.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable

from cachetools import LRUCache

MINUTE_S = 60.0
KEYS_REMEMBERED = 16_384


class Pace:
    """`left_out`: how many were not allowed since the start."""

    def __init__(self, most: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.left_out = 0
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._times: LRUCache[Hashable, deque[float]] = LRUCache(KEYS_REMEMBERED)

    def allows(self, key: Hashable) -> bool:
        """Whether it may happen now; then it counts."""
        return self.wait_s(key) == 0.0

    def wait_s(self, key: Hashable) -> float:
        """0 where it may happen now (then it counts), else in how many seconds it may."""
        now = self._monotonic()
        with self._lock:
            times = self._times.setdefault(key, deque(maxlen=self.most))
            if len(times) == self.most and now - times[0] < MINUTE_S:
                self.left_out += 1
                return MINUTE_S - (now - times[0])
            times.append(now)
            return 0.0
