"""A bounded ring of records between vLLM's event loop and the feed's thread.

Guarantee: `append` never waits for a reader (only for another `append`, which takes microseconds), and what the ring
holds stays within its bounds: the oldest records fall out first, which the reader notices as a gap in the numbers. A
record stands for one or more events, numbered without gaps.
"""

import threading
from typing import Any, NamedTuple

CAPACITY = 16384
"""Records at most."""
LARGEST_BYTES = 32 * 2**20
"""Sum of the records' sizes at most, as their writer estimates them."""


class Numbered(NamedTuple):
    """`record`, the number of its first event, and its size in bytes."""

    first: int
    record: Any
    size: int


class Ring:
    """Any number of writers, one reader. Numbers start at 1."""

    def __init__(self, capacity: int = CAPACITY, largest_bytes: int = LARGEST_BYTES) -> None:
        self._slots: list[Numbered | None] = [None] * capacity
        self._largest_bytes = largest_bytes
        self._bytes = 0
        self._low = 0  # Place of the oldest record held; places count from the start and wrap round the slots.
        self._written = 0
        self._next = 1
        self._writes = threading.Lock()

    def append(self, record: Any, events: int, size: int = 1) -> None:
        """Keep a record of so many events, and of so many bytes."""
        with self._writes:
            self._append(record, events, size)

    def _append(self, record: Any, events: int, size: int) -> None:
        if self._written - self._low >= len(self._slots):
            self._drop()
        self._slots[self._written % len(self._slots)] = Numbered(self._next, record, size)
        self._bytes += size
        self._next += events
        self._written += 1
        while self._bytes > self._largest_bytes and self._written - self._low > 1:
            self._drop()

    def _drop(self) -> None:
        place = self._low % len(self._slots)
        fallen, self._slots[place] = self._slots[place], None
        self._low += 1
        if fallen is not None:
            self._bytes -= fallen.size

    @property
    def oldest(self) -> int:
        """Number of the oldest event still held; the next one when nothing is."""
        kept = self._slots[self._low % len(self._slots)] if self._low < self._written else None
        return kept.first if kept is not None else self._next

    @property
    def newest(self) -> int:
        return self._next - 1

    def after(self, number: int, limit: int = 256) -> list[Numbered]:
        """Up to `limit` records, oldest first, that reach above `number`.

        It may run beside `append`, which empties a slot, then counts it out, and only then fills it anew: what is read
        of a place that is still counted in afterwards is that place's own record.
        """
        low, high = self._low, self._written
        while low < high:  # The first record that begins above `number`.
            middle = (low + high) // 2
            found = self._slots[middle % len(self._slots)]
            if found is not None and found.first > number:
                high = middle
            else:
                low = middle + 1
        start = max(low - 1, self._low)  # The record before it may reach above `number` too.
        got: list[Numbered] = []
        for place in range(start, min(self._written, start + limit)):
            found = self._slots[place % len(self._slots)]
            if found is not None and place >= self._low:
                got.append(found)
        return got
