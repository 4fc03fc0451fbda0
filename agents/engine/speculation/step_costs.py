"""What a step costs, learned from the steps that ran: seconds of a decode step by its requests and its drafts.

Only the proportions between costs matter to who asks, so costs are kept relative to a pace that all steps share and
that follows the machine from step to step: another process that halves the speed for a while changes no proportion,
though some kinds of step are seen only in that while.

Guarantees: deterministic given its observations, in their order; one slow step (a page fault) moves next to nothing,
for a cost is the median of the last few; what has not been seen for long is forgotten, so that a cost follows longer
contexts and other weights.
"""

from bisect import bisect_left
from collections import deque
from statistics import median_low

_KEPT = 9  # Observations a median is taken of.
_SETTLED = 3  # Observations from which on a cost tells the machine's pace.
_PACE_MEMORY = 0.5  # So low that the pace has followed before a median has.
FORGET_AFTER, _SWEEP_EVERY = 2048, 256  # Steps of a number of requests.


def bucket(count: int) -> int:
    """Counts of like cost as one number: exact to 8, then in steps of a quarter of the power of two below."""
    if count <= 8:
        return count
    unit = 1 << (count.bit_length() - 3)
    return -(-count // unit) * unit


class _Seen:
    """The last durations of one kind of step, relative to the machine's pace."""

    __slots__ = ("cost", "last_step", "values")

    def __init__(self) -> None:
        self.values: deque[float] = deque(maxlen=_KEPT)
        self.cost = 0.0
        self.last_step = 0

    def add(self, value: float, step: int) -> None:
        self.values.append(value)
        self.cost = median_low(self.values)
        self.last_step = step

    def weaken(self, most: int) -> None:
        while len(self.values) > most:
            self.values.popleft()
        self.cost = median_low(self.values)


class _Curve:
    """Costs by drafts for one number of requests. They rise with the drafts: neighbours that say otherwise are averaged
    (isotonic regression by pooling adjacent violators, Ayer et al. 1955)."""

    def __init__(self) -> None:
        self.seen: dict[int, _Seen] = {}
        self.steps = 0
        self._places: list[int] = []
        self._costs: list[float] = []
        self._stale = True

    def add(self, drafts: int, value: float) -> None:
        self.steps += 1
        self.seen.setdefault(bucket(drafts), _Seen()).add(value, self.steps)
        self._stale = True
        if self.steps % _SWEEP_EVERY == 0:
            self.seen = {place: seen for place, seen in self.seen.items() if self.steps - seen.last_step < FORGET_AFTER}

    def weaken(self, most: int) -> None:
        for drafts, seen in self.seen.items():
            if drafts:
                seen.weaken(most)
        self._stale = True

    def cost(self, drafts: int) -> float:
        """Between neighbours by a straight line, beyond them the nearest one's."""
        if self._stale:
            self._places = sorted(self.seen)
            self._costs = _rising([self.seen[place] for place in self._places])
            self._stale = False
        places, costs = self._places, self._costs
        right = bisect_left(places, drafts)
        if right == len(places):
            return costs[-1]
        if places[right] == drafts or right == 0:
            return costs[right]
        share = (drafts - places[right - 1]) / (places[right] - places[right - 1])
        return costs[right - 1] * (1 - share) + costs[right] * share


def _rising(seen: list[_Seen]) -> list[float]:
    pools: list[tuple[float, int, int]] = []  # Mean, weight, places.
    for own in seen:
        mean, weight, places = own.cost, len(own.values), 1
        while pools and pools[-1][0] > mean:
            before, more, others = pools.pop()
            mean = (mean * weight + before * more) / (weight + more)
            weight, places = weight + more, places + others
        pools.append((mean, weight, places))
    return [mean for mean, _, places in pools for _ in range(places)]


class StepCosts:
    """Costs of verification: `seconds(requests, drafts)`."""

    def __init__(self) -> None:
        self.pace = 1.0
        """Seconds that a step takes now for each second of its cost as kept."""
        self._curves: dict[int, _Curve] = {}

    def observe(self, requests: int, drafts: int, seconds: float) -> None:
        """A step of `requests` decodes with `drafts` drafts in all took this long, drafting apart."""
        curve = self._curves.setdefault(bucket(requests), _Curve())
        seen = curve.seen.get(bucket(drafts))
        if seen is not None and len(seen.values) >= _SETTLED and seconds > 0.0:
            change = min(2.0, max(0.5, seconds / (seen.cost * self.pace)))
            self.pace *= change ** (1 - _PACE_MEMORY)
        curve.add(drafts, seconds / self.pace)

    def age(self, requests: int) -> int | None:
        """Steps of so many requests since one without drafts; None: never seen, or forgotten."""
        curve = self._curves.get(bucket(requests))
        seen = curve.seen.get(0) if curve else None
        return None if curve is None or seen is None else curve.steps - seen.last_step

    def weaken(self, requests: int) -> None:
        """Let what was seen of steps with drafts count for less than three new observations of each kind."""
        if curve := self._curves.get(bucket(requests)):
            curve.weaken(_SETTLED - 1)

    def least_seconds(self, requests: int, drafts: int) -> float | None:
        """The least that a step of this kind has taken of those remembered; None: none is."""
        curve = self._curves.get(bucket(requests))
        seen = curve.seen.get(bucket(drafts)) if curve else None
        return None if seen is None else self.pace * min(seen.values)

    def seconds(self, requests: int, drafts: int) -> float:
        """The cost. Past the largest number of drafts seen it is that one's: a hope that makes longer drafts be tried.
        Something must have been seen for so many requests."""
        return self.pace * self._curves[bucket(requests)].cost(drafts)
