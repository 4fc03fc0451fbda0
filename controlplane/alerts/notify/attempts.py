"""How often somebody may try: a token bucket for each caller, in memory, of at most so many callers. Thread-safe."""

import threading
from collections import OrderedDict
from datetime import datetime

from controlplane.alerts.notify.token_bucket import Bucket, filled
from controlplane.contract.errors import Overloaded

MOST_CALLERS = 10_000


class Attempts:
    """`refused`: how many were told to wait, since the start."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self.refused = 0

    def note(self, caller: str, now: datetime) -> None:
        """Raises `Overloaded` when this is too often."""
        with self._lock:
            bucket = filled(self._buckets.pop(caller, None), self._per_minute, now)
            allowed = bucket.tokens >= 1
            self._buckets[caller] = Bucket(bucket.tokens - 1, now) if allowed else bucket
            if len(self._buckets) > MOST_CALLERS:
                self._buckets.popitem(last=False)
            self.refused += not allowed
        if not allowed:
            raise Overloaded("too many callbacks: try again in a while", 60 / self._per_minute)
