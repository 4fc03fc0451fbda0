"""What is usual of a metric, by prompt bucket, as scores: a window's requests against it. Pure.

Prompts of one bucket differ by up to four times, and which of them arrive varies for minutes: of prefill that is much
of what requests seem to share. So its scores by place are less what the window's mean prompt explains (a straight line,
fitted to how neighbouring windows differ); what is left of their variance is told with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.regressions.stacked_tails import Stack, StackedTails
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.material import Tail
from controlplane.contract.metrics import PREFILL
from controlplane.evidence.scores import Scoring, location, tail

Floats = NDArray[np.float64]

BY_TOKENS = frozenset({PREFILL.short})
"""Metrics that are counted of the same requests in the same windows as prompt tokens, and take longer for more."""
LEAST_WINDOWS = 60
"""With fewer nothing is known of what longer prompts do."""
LEAST_LEFT = 0.1
LEAST_COUNT = 30
"""A prompt bucket with fewer usual requests is not scored: nothing is known of it."""


@dataclass(frozen=True)
class Scored:
    """Requests of one prompt bucket: how many, the sums of their scores by place and by tail, and of the variances of
    those by place."""

    count: int = 0
    location: float = 0.0
    tail: float = 0.0
    variance: float = 0.0


@dataclass(frozen=True)
class ScoredEach:
    """The same of each of many windows: float64[windows] each."""

    count: Floats
    location: Floats
    tail: Floats
    variance: Floats


@dataclass(frozen=True)
class ByTokens:
    """What a request's prompt explains of its score by place: `slope` for each token more than `mean`; left: of the
    score's variance of 1, what it does not."""

    slope: float = 0.0
    mean: float = 0.0
    left: float = 1.0

    @classmethod
    def learn(cls, counts: Floats, sums: Floats, tokens: Floats) -> "ByTokens":
        """Of windows in order: requests, sums of their scores, and their prompt tokens; float64[windows] each."""
        some = (counts > 0.0) & (tokens > 0.0)
        counts, sums, tokens = counts[some], sums[some], tokens[some]
        if counts.size < LEAST_WINDOWS:
            return cls()
        longer, slower = np.diff(tokens / counts), np.diff(sums / counts)
        trust = 1.0 / (1.0 / counts[1:] + 1.0 / counts[:-1])
        spread = float(trust @ longer**2)
        if spread <= 0.0:
            return cls()
        slope = float(trust @ (longer * slower)) / spread
        explained = slope**2 * spread / longer.size
        return cls(slope, float(tokens.sum() / counts.sum()), max(1.0 - explained, LEAST_LEFT))


@dataclass(frozen=True)
class Usual:
    """One prompt bucket. share: of all usual requests; tables: float64[2, axis + 1], the scores after a 0."""

    location: Scoring
    tail: Scoring
    share: float
    tables: Floats
    by_tokens: ByTokens = ByTokens()

    def score(self, found: Tail, tokens: float = 0.0) -> Scored:
        """A tail tells how many lie at or above each place: a sum by parts gives the sum of their scores."""
        if not found.tail.size:
            return Scored()
        first = int(found.tail[0])
        steps = self._steps[:, found.low : found.low + found.tail.size]
        by_place, by_tail = (steps @ found.tail + first * self.tables[:, found.low]).tolist()
        if not (tokens > 0.0 and self.by_tokens.slope):
            return Scored(first, by_place, by_tail, float(first))
        explained = self.by_tokens.slope * (tokens - first * self.by_tokens.mean)
        return Scored(first, by_place - explained, by_tail, self.by_tokens.left * first)

    @cached_property
    def _steps(self) -> Floats:
        """From each place's score to the next one's, float64[2, axis]."""
        return np.diff(self.tables, axis=1)

    def explained(self, count: Floats | int, tokens: Floats | float) -> tuple[Floats, Floats]:
        """Of so many requests with so many tokens in all, 0 where nobody told: the part of the sum of their scores that
        the tokens explain, and the sum of the variances that are left."""
        known = (np.asarray(tokens) > 0.0) & (self.by_tokens.slope != 0.0)
        excess = np.asarray(tokens) - count * self.by_tokens.mean
        return np.where(known, self.by_tokens.slope * excess, 0.0), np.where(known, self.by_tokens.left, 1.0) * count


@dataclass
class Yardstick:
    """A metric's usual requests by prompt bucket. Several courses ask for the same window one after the other."""

    metric: str
    usual: Mapping[str, Usual]
    by_tokens: bool = False
    _last: tuple[Window, dict[str, Scored]] | None = field(default=None, init=False, repr=False)

    def score(self, window: Window) -> Mapping[str, Scored]:
        """By prompt bucket; what nothing is known of is left out."""
        if self._last is None or self._last[0] is not window:
            tails = window.tails.get(self.metric, {})
            found = {
                name: known.score(tails[name], window.tokens.get(name, 0.0) if self.by_tokens else 0.0)
                for name, known in self.usual.items()
                if name in tails
            }
            self._last = window, found
        return self._last[1]

    def score_each(self, stack: Stack) -> dict[str, ScoredEach]:
        """By prompt bucket, of each window what `score` says of it."""
        found = {}
        for name, one in stack.buckets.items():
            if name in self.usual:
                count, by_place, by_tail = _sums(one, self.usual[name].tables, len(stack.windows))
                tokens = _tokens(stack, name) if self.by_tokens else np.zeros_like(count)
                explained, left = self.usual[name].explained(count, tokens)
                found[name] = ScoredEach(count, by_place - explained, by_tail, left)
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
        if stack.metric in BY_TOKENS:
            count, scores, _ = _sums(stack.buckets[name], tables, len(stack.windows))
            usual[name] = replace(usual[name], by_tokens=ByTokens.learn(count, scores, _tokens(stack, name)))
    return Yardstick(stack.metric, usual, stack.metric in BY_TOKENS)


def _sums(stacked: StackedTails, tables: Floats, windows: int) -> Floats:
    """Requests and the sums of their scores by place and by tail: float64[3, windows]."""
    scores = np.zeros((3, windows))
    scores[0, stacked.places], scores[1:, stacked.places] = stacked.scored(tables[:, 1:])
    return scores


def _tokens(stack: Stack, bucket: str) -> Floats:
    return np.array([window.tokens.get(bucket, 0.0) for window in stack.windows])
