"""The requests that wait, in the order in which they may start.

Guarantee: adding, removing and finding the next one cost O(log n) in the number that wait. Requests that have begun
(preempted ones) are kept apart from new ones, and long prompts from short ones, so that either can be held back without
a search.
"""

from collections.abc import Iterator

from agents.engine.scheduling.lazy_heap import LazyHeap
from agents.engine.scheduling.policy import Policy
from agents.engine.scheduling.request import Request


class WaitingQueue:
    """Requests must have their `rank`, `urgency` and `is_long`, which do not change while they wait."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.tokens = 0
        """Tokens to be computed before all of them have had their first one, cached prefixes not deducted."""
        self._places: dict[Request, LazyHeap[Request]] = {}
        self._new_short: LazyHeap[Request] = LazyHeap()
        self._new_long: LazyHeap[Request] = LazyHeap()
        self._begun_short: LazyHeap[Request] = LazyHeap()
        self._begun_long: LazyHeap[Request] = LazyHeap()
        self._least_urgent: LazyHeap[Request] = LazyHeap()  # New ones only: one that has begun is not given up.
        self._by_kind: dict[tuple[bool, int], tuple[int, int]] = {}  # (is long, priority) to (requests, tokens).

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Request]:
        """By rank. For showing and for tests: it sorts them all."""
        return iter(sorted(self._places, key=lambda request: request.rank))

    def __contains__(self, request: Request) -> bool:
        return request in self._places

    @property
    def has_begun(self) -> bool:
        """Whether a request waits that was preempted."""
        return bool(self._begun_short or self._begun_long)

    def add(self, request: Request) -> None:
        long = request.is_long
        if request.scheduled_at is None:
            place = self._new_long if long else self._new_short
            self._least_urgent.push((-request.urgency, -request.order), request)
        else:
            place = self._begun_long if long else self._begun_short
        place.push(request.rank, request)
        self._places[request] = place
        self._count(request, 1)

    def remove(self, request: Request) -> None:
        place = self._places.pop(request)
        place.discard(request)
        self._least_urgent.discard(request)
        self._count(request, -1)

    def next(self, *, new: bool = True, long: bool = True) -> Request | None:
        """Who starts next, left in the queue. new=False: of those that have begun; long=False: of the short ones."""
        if not self._places:
            return None
        found = self._begun_short.first()
        for allowed, heap in (
            (new, self._new_short),
            (long, self._begun_long),
            (new and long, self._new_long),
        ):
            if allowed and (other := heap.first()) is not None and (found is None or other.rank < found.rank):
                found = other
        return found

    def least_urgent(self) -> Request | None:
        """The one to give up first when there are too many: least urgent, then youngest; None: all have begun."""
        return self._least_urgent.first()

    def ahead(self, priority: int, tokens: int) -> tuple[int, int]:
        """Requests, and their tokens, that are to start before a newcomer of this priority and so many tokens.

        An estimate: aging is left out, and before a short prompt only short ones count. Other threads may ask.
        """
        is_long = self.policy.is_long(tokens)
        requests = waiting_tokens = 0
        for (long, level), (count, own) in self._by_kind.copy().items():  # Copied at once: it may be changing.
            if level <= priority and (is_long or not long):
                requests += count
                waiting_tokens += own
        return requests, waiting_tokens

    def has_less_urgent(self, priority: int) -> bool:
        """Whether a request of a less urgent priority waits. Other threads may ask."""
        return any(level > priority for _, level in self._by_kind.copy())

    def _count(self, request: Request, change: int) -> None:
        tokens = change * len(request.tokens)
        self.tokens += tokens
        key = request.is_long, request.priority
        requests_before, tokens_before = self._by_kind.get(key, (0, 0))
        self._by_kind[key] = requests_before + change, tokens_before + tokens
        if not self._by_kind[key][0]:
            del self._by_kind[key]
