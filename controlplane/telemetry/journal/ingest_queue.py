"""The writer's queue: bounded in reports and in bytes, so that a burst is told to wait and does not fill the memory."""

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class IngestQueue(Generic[T]):
    """Thread-safe; one thread takes: `wait` and `pop` are for it alone."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._items: deque[tuple[T, int]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._wanted = 1  # Nobody is woken for fewer.
        self._put = self._popped = 0  # Bytes, each counted by one side only, so that `pop` takes no lock.

    @property
    def nbytes(self) -> int:
        return self._put - self._popped

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T, nbytes: int) -> bool:
        """False where there is no room. One item alone always has room, however large."""
        with self._changed:
            if len(self._items) >= self._most or (self._items and self.nbytes + nbytes > self._most_bytes):
                return False
            self._items.append((item, nbytes))
            self._put += nbytes
            if len(self._items) >= self._wanted:
                self._changed.notify()
            return True

    def close(self) -> None:
        """Nothing is put in after this; what is there is still taken."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def wait(self, linger_s: float, enough: int) -> bool:
        """Wait for an item, and from then on for `linger_s` or until there are `enough`. False at the end."""
        with self._changed:
            self._wanted = 1
            self._changed.wait_for(lambda: self._items or self._closed)
            self._wanted = enough
            self._changed.wait_for(lambda: len(self._items) >= enough or self._closed, linger_s)
            return bool(self._items)

    def pop(self) -> T | None:
        """The oldest, or None."""
        if not self._items:
            return None
        item, nbytes = self._items.popleft()
        self._popped += nbytes
        return item
