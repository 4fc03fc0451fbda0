"""A bounded ring of records between vLLM's event loop and the feed's thread.

Guarantee: `append` takes constant time and never waits for a reader; what falls out unread is noticed by the reader as
a gap in the numbers. A record stands for one or more events, numbered without gaps.
"""

import threading
from typing import Any, NamedTuple

CAPACITY = 16384


class Numbered(NamedTuple):
    """`record` and the number of its first event."""

    first: int
    record: Any


class Ring:
    """One writer, one reader. Numbers start at 1."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._slots: list[Numbered | None] = [None] * capacity
        self._written = 0
        self._next = 1
        self._changed = threading.Condition()
        self._reader_waits = False

    def append(self, record: Any, events: int) -> None:
        """Keep a record of so many events."""
        self._slots[self._written % len(self._slots)] = Numbered(self._next, record)
        self._next += events
        self._written += 1
        if self._reader_waits:
            with self._changed:
                self._changed.notify()

    @property
    def oldest(self) -> int:
        """Number of the oldest event still held; the next one when nothing is."""
        kept = self._slots[self._written % len(self._slots)] if self._written >= len(self._slots) else self._slots[0]
        return kept.first if kept is not None else self._next

    @property
    def newest(self) -> int:
        return self._next - 1

    def after(self, number: int, limit: int = 256) -> list[Numbered]:
        """Up to `limit` records, oldest first, whose successor's first event is above `number` + 1."""
        written, capacity = self._written, len(self._slots)
        low, high = max(0, written - capacity + 1), written  # One slot is left out: it may be overwritten just now.
        while low < high:  # The first record that begins above `number`.
            middle = (low + high) // 2
            found = self._slots[middle % capacity]
            if found is not None and found.first > number:
                high = middle
            else:
                low = middle + 1
        start = max(low - 1, written - capacity + 1, 0)  # The one before it may reach above `number` too.
        wanted = [self._slots[place % capacity] for place in range(start, min(written, start + limit))]
        return [one for one in wanted if one is not None]

    def wait(self, number: int, timeout_s: float) -> bool:
        """Until an event above `number` is there, or the time is over. True: it is there."""
        if self.newest > number:
            return True
        with self._changed:
            self._reader_waits = True
            if self.newest <= number:
                self._changed.wait(timeout_s)
            self._reader_waits = False
        return self.newest > number
