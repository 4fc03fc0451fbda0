"""Timers of one process in one thread (a heap of deadlines): what is to be done at a moment that mostly never comes.

Guarantee: a deed that was not called off is done at its moment or shortly after, once; deeds are short, and what one
raises is logged and ends no other. A thread of its own for each of them would cost more than the work it watches over.
"""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)


@dataclass(order=True)
class _Entry:
    at: float
    number: int
    deed: Callable[[], object] | None = field(compare=False)


class Deadlines:
    """Thread-safe. Its thread is begun with the first deadline, and is a daemon's."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._entries: list[_Entry] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def at(self, moment_s: float, deed: Callable[[], object]) -> Callable[[], None]:
        """Have it done then, on the monotonic clock; the answer calls it off."""
        entry = _Entry(moment_s, next(self._numbers), deed)
        with self._changed:
            heapq.heappush(self._entries, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
            elif self._entries[0] is entry:
                self._changed.notify()

        def call_off() -> None:
            entry.deed = None  # The entry is dropped when its moment comes.

        return call_off

    def _run(self) -> None:
        while True:
            deed = self._next()
            try:
                deed()
            except Exception:
                log.exception("what was to be done at a deadline failed")

    def _next(self) -> Callable[[], object]:
        with self._changed:
            while True:
                while self._entries and self._entries[0].deed is None:
                    heapq.heappop(self._entries)
                wait_s = self._entries[0].at - time.monotonic() if self._entries else None
                if wait_s is not None and wait_s <= 0 and (deed := heapq.heappop(self._entries).deed) is not None:
                    return deed
                if wait_s is None or wait_s > 0:
                    self._changed.wait(wait_s)
