"""One SLO limit, watched while a canary is judged (pure): does the canary break it where the control keeps it?

Guarantee: harm is said with probability at most alpha where the canary keeps the limit, and as well where it breaks it
no more often than the control does: two e-processes must both reach the bound, each of which holds one of the two.
- Of the canary's values, the share above the limit is more than 1 - q: a binomial likelihood ratio, tempered as the
  other counts are (see `exceedance`).
- The canary's share above the limit is larger than the control's: the two-sample evidence of `Stream`, at that edge.
The edge is the end of the bucket that holds the limit, so a value within 2.2 % above it is not counted against it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.histogram import axis_position
from controlplane.evidence.binomial import log_likelihood_ratio
from controlplane.evidence.exceedance import log_mean_exp
from controlplane.rollouts.judging.evidence_of_metric import STEADY, Pace, Stream, Window


class LimitWatch(BaseModel):
    """The evidence about one limit. JSON in, JSON out."""

    limit: Limit
    stream: Stream
    breaks: list[float]  # By alternative of the stream: ln of the evidence that the canary breaks the limit.
    seen: int = 0  # The canary's values,
    above: int = 0  # and those of them above the limit.

    @classmethod
    def start(cls, limit: Limit, prior_phi: float, pace: Pace = STEADY) -> "LimitWatch":
        stream = Stream.start([limit.q], prior_phi, pace=pace)
        stream.edges = {"": [axis_position(limit.limit_s)]}
        return cls(limit=limit, stream=stream, breaks=[0.0] * len(stream.odds))

    def rehearse(self, windows: Sequence[Window], pairs: Sequence[Window], *, concurrent: bool) -> None:
        """Learn from before the canary how the counts scatter; `pairs`: windows whose arms both ran the same."""
        if not concurrent:
            self.stream.past = [self.stream.count(window, 0.0) for window in windows]
        for window in pairs:
            self.stream.take(self.stream.count(window, 0.0), rehearsal=True)
        self.stream.pending = {}

    def feed(self, window: Window, *, concurrent: bool) -> None:
        """Judge one tick."""
        edge = self.stream.edges[""][0]
        count = sum(sketch.count for sketch in window.canary.values())
        above = sum(sketch.above(edge) for sketch in window.canary.values())
        self.seen, self.above = self.seen + count, self.above + above
        allowed, phi = 1.0 - self.limit.q, self.stream.levels[0].dispersion.phi
        for place, odds in enumerate(self.stream.odds):
            share = odds * allowed / (1.0 + (odds - 1.0) * allowed)
            self.breaks[place] += log_likelihood_ratio(above, count, allowed, share) / phi
        counts = self.stream.count(window, 0.0)
        if concurrent or self.stream.pair(counts):
            self.stream.take(counts)

    def log_worse(self) -> float:
        """The lesser of the two."""
        return min(log_mean_exp(np.array(self.breaks)), self.stream.log_worse())

    def settle(self, bound: float) -> None:
        """Keep what has been shown."""
        self.stream.is_worse = self.stream.is_worse or self.log_worse() >= bound

    def evidence(self) -> dict[str, Any]:
        total = self.stream.totals()
        return {
            **self.limit.model_dump(),
            "canary": {"count": self.seen, "above": self.above},
            "judged": {
                "control": {"count": total.n_a, "above": total.a[0]},
                "canary": {"count": total.n_b, "above": total.faster[0]},
            },
            "log_e": {"breaks": log_mean_exp(np.array(self.breaks)), "more_often": self.stream.log_worse()},
            "finding": "broken" if self.stream.is_worse else "undecided",
        }
