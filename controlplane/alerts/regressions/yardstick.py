"""What is usual of a metric, by prompt bucket, as scores: a window's requests against it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.regressions.stacked_tails import Stack
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.material import Tail
from controlplane.evidence.scores import Scoring, location, tail

Floats = NDArray[np.float64]

LEAST_COUNT = 30
"""A prompt bucket with fewer usual requests is not scored: nothing is known of it."""


@dataclass(frozen=True)
class Scored:
    """Requests of one prompt bucket: how many, and the sums of their scores by place and by tail."""

    count: int = 0
    location: float = 0.0
    tail: float = 0.0


@dataclass(frozen=True)
class ScoredEach:
    """The same of each of many windows: float64[windows] each."""

    count: Floats
    location: Floats
    tail: Floats


@dataclass(frozen=True)
class Usual:
    """One prompt bucket. share: of all usual requests; tables: float64[2, axis + 1], the scores after a 0."""

    location: Scoring
    tail: Scoring
    share: float
    tables: Floats

    def score(self, found: Tail) -> Scored:
        """A tail tells how many lie at or above each place: a sum by parts gives the sum of their scores."""
        if not found.tail.size:
            return Scored()
        used, first = self.tables[:, found.low : found.low + found.tail.size + 1], int(found.tail[0])
        by_place, by_tail = np.diff(used, axis=1) @ found.tail + first * used[:, 0]
        return Scored(first, float(by_place), float(by_tail))


@dataclass
class Yardstick:
    """A metric's usual requests by prompt bucket. Several courses ask for the same window one after the other."""

    metric: str
    usual: Mapping[str, Usual]
    _last: tuple[Window, dict[str, Scored]] | None = field(default=None, init=False, repr=False)

    def score(self, window: Window) -> Mapping[str, Scored]:
        """By prompt bucket; what nothing is known of is left out."""
        if self._last is None or self._last[0] is not window:
            tails = window.tails.get(self.metric, {})
            found = {name: known.score(tails[name]) for name, known in self.usual.items() if name in tails}
            self._last = window, found
        return self._last[1]

    def score_each(self, stack: Stack) -> dict[str, ScoredEach]:
        """By prompt bucket, of each window what `score` says of it."""
        found = {}
        for name, one in stack.buckets.items():
            if name in self.usual:
                scores = np.zeros((3, len(stack.windows)))
                scores[0, one.places], scores[1:, one.places] = one.scored(self.usual[name].tables[:, 1:])
                found[name] = ScoredEach(*scores)
        return found


def yardstick(stack: Stack) -> Yardstick:
    """By what the windows hold."""
    counts = {name: one.merged.counts for name, one in stack.buckets.items()}
    counts = {name: found for name, found in counts.items() if found.sum() >= LEAST_COUNT}
    whole = sum(int(found.sum()) for found in counts.values())
    usual = {}
    for name, found in counts.items():
        by_place, by_tail = location(found), tail(found)
        tables = np.pad(np.stack([by_place.table, by_tail.table]), ((0, 0), (1, 0)))
        usual[name] = Usual(by_place, by_tail, int(found.sum()) / whole, tables)
    return Yardstick(stack.metric, usual)
