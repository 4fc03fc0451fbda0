"""A pool's load tick by tick: what arrives, what is served, and what waits.

Arrivals are requests served plus the growth of those that run or wait: when an engine slows down, what it finishes says
nothing of what comes. A request's tokens are known when it has ended, so what arrives is taken to be as long as what
was served lately.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from controlplane.alerts.queueing.return_level import Floats

RATE_S = 60.0
"""Over so long the rate is taken at which requests are served: a backlog is as long as it takes to serve it."""
LEAST_SHARE = 0.05
"""An engine that serves nothing for a moment makes nobody wait for ever: the rate is at least this part of the mean."""


@dataclass(frozen=True)
class PoolLoad:
    """Ticks of `step_s` from `start_s` (seconds since the epoch) on; float64[ticks] each.

    served: requests that ended in the tick; tokens: of their prompts and answers, all nodes together; waiting, running:
    requests at the tick's end, NaN where nobody told; nodes: that told anything. by_bucket: served by prompt bucket.
    """

    start_s: float
    step_s: float
    served: Floats
    tokens: Floats
    waiting: Floats
    running: Floats
    nodes: Floats
    by_bucket: dict[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.served.size

    def until(self, ticks: int) -> "PoolLoad":
        """The first so many ticks."""
        return self.between(0, ticks)

    def between(self, first: int, last: int) -> "PoolLoad":
        """Ticks `first` .. `last` - 1, counted from the start."""
        part = slice(first, last)
        return PoolLoad(
            self.start_s + first * self.step_s,
            self.step_s,
            self.served[part],
            self.tokens[part],
            self.waiting[part],
            self.running[part],
            self.nodes[part],
            {name: one[part] for name, one in self.by_bucket.items()},
        )

    def followed_by(self, newer: "PoolLoad") -> "PoolLoad":
        """Both, one after the other."""
        nothing, none_newer = np.zeros(len(self)), np.zeros(len(newer))
        names = {**self.by_bucket, **newer.by_bucket}
        return PoolLoad(
            self.start_s,
            self.step_s,
            np.concatenate([self.served, newer.served]),
            np.concatenate([self.tokens, newer.tokens]),
            np.concatenate([self.waiting, newer.waiting]),
            np.concatenate([self.running, newer.running]),
            np.concatenate([self.nodes, newer.nodes]),
            {
                name: np.concatenate([self.by_bucket.get(name, nothing), newer.by_bucket.get(name, none_newer)])
                for name in names
            },
        )

    @property
    def end_s(self) -> float:
        return self.start_s + self.step_s * len(self)

    def ticks_of(self, seconds: float) -> int:
        return max(1, round(seconds / self.step_s))

    @cached_property
    def arrived(self) -> Floats:
        """Requests that came in each tick."""
        inside = np.nan_to_num(self.waiting) + np.nan_to_num(self.running)
        grown = np.diff(inside, prepend=inside[:1])
        return np.maximum(self.served + grown, 0.0)

    @cached_property
    def rate(self) -> Floats:
        """Requests served a second lately."""
        mean = float(self.served.mean()) / self.step_s if len(self) else 0.0
        return np.maximum(trailing(self.served, self.ticks_of(RATE_S)) / self.step_s, LEAST_SHARE * mean)

    @cached_property
    def wait_s(self) -> Floats:
        """How long a request that comes now waits: those before it, at the rate at which they are served (Little's
        law). NaN where nobody tells what waits."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(self.rate > 0.0, self.waiting / self.rate, np.where(self.waiting > 0.0, math.inf, 0.0))
        return np.where(np.isnan(self.waiting), np.nan, np.minimum(found, 86400.0))

    def tokens_each(self, ticks: slice) -> float:
        """Tokens of a request that was served in these ticks; 0 where none was, or where nobody tells tokens."""
        served = float(self.served[ticks].sum())
        return float(self.tokens[ticks].sum()) / served if served else 0.0


def trailing(values: Floats, ticks: int) -> Floats:
    """The mean of the newest so many values at each place; of fewer at the start."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, values.size + 1)
    first = np.maximum(last - ticks, 0)
    return np.asarray((total[last] - total[first]) / (last - first))
