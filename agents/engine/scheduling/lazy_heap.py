"""A priority queue out of whose middle things can be taken.

Guarantee: `push`, `discard` and `first` cost O(log n) amortized, whatever is taken out and in which order. What is
taken out stays in the heap as a dead entry until it comes to the top, or until dead entries are the majority.
"""

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)

_FEWEST_DEAD = 16


class LazyHeap(Generic[Item]):
    """Items by rising key; equal keys by order of `push`. An item is in it once at most."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Item]] = []
        self._tickets: dict[Item, int] = {}  # Of the items that are alive; any other entry of the heap is dead.
        self._last_ticket = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, item: Item) -> bool:
        return item in self._tickets

    def __iter__(self) -> Iterator[Item]:
        """In no particular order."""
        return iter(list(self._tickets))

    def push(self, key: Any, item: Item) -> None:
        """Add an item that is not in it. Keys must be comparable with each other."""
        assert item not in self._tickets
        self._last_ticket += 1
        self._tickets[item] = self._last_ticket
        heappush(self._heap, (key, self._last_ticket, item))

    def discard(self, item: Item) -> bool:
        """Take an item out; whether it was in."""
        if self._tickets.pop(item, None) is None:
            return False
        if len(self._heap) > 2 * len(self._tickets) + _FEWEST_DEAD:
            self._heap = [entry for entry in self._heap if self._tickets.get(entry[2]) == entry[1]]
            heapify(self._heap)
        return True

    def first(self) -> Item | None:
        """The item with the smallest key, left in."""
        entry = self._top() if self._tickets else None
        return None if entry is None else entry[2]

    def first_key(self) -> Any:
        """The smallest key, None when it is empty."""
        entry = self._top()
        return None if entry is None else entry[0]

    def _top(self) -> tuple[Any, int, Item] | None:
        heap = self._heap
        while heap and self._tickets.get(heap[0][2]) != heap[0][1]:
            heappop(heap)
        return heap[0] if heap else None
