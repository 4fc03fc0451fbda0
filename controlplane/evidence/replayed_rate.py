"""How often a detector would have alarmed over a stretch of its own past: what was counted, and what its tail promises.

Counted are the blocks in which the evidence reached the threshold; a stretch of hours bounds the rate by that
(`poisson.upper`) no better than at some alarms a day. Where none did, the rate is extrapolated from how the highest
evidence of each block falls off beyond its median (exponential excesses: Pickands, "Statistical inference using
extreme order statistics", 1975), never faster than by a factor e per nat, which is as fast as honest likelihood ratios
do. Pure.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.evidence.poisson import upper

Floats = NDArray[np.float64]

BLOCK_TICKS = 120
CAUTION = 1.645
"""Standard errors by which the fall-off is taken to be slower than the excesses show: a bound at 95 %."""
LEAST_SCALE = 1.0
"""In nats."""


@dataclass(frozen=True)
class ReplayedRate:
    """highest: of the evidence, in nats; alarms: how many were counted in `span_s`; counted_bound: of alarms a week, at
    95 %; expected, bound: alarms a week by the tail, and at 95 %, None where an alarm was counted or little is known.
    """

    span_s: float
    highest: float
    alarms: int
    counted_bound: float
    expected: float | None
    bound: float | None

    @property
    def in_words(self) -> str:
        """What was counted, and, where nothing was, what the tail promises; said as what it is."""
        told = f"; replayed over {self.span_s / 3600:.1f} h of it, this line would have alarmed {self.alarms} times"
        told += f", which bounds it at {self.counted_bound:.0f} a week (95 %)"
        if self.bound is None:
            return told
        return f"{told}; extrapolated from how its highest evidence falls off, {self.bound:.2g} a week at most (95 %)"


def replayed_rate(log_evidence: Floats, tick_s: float, log_threshold: float) -> ReplayedRate:
    """log_evidence: float64[ticks], not empty, what it came to after each tick."""
    span_s, week_s = log_evidence.size * tick_s, 7 * 86400.0
    blocks = max(1, log_evidence.size // BLOCK_TICKS)
    tops = np.array([part.max() for part in np.array_split(log_evidence, blocks)])
    alarms = int((tops >= log_threshold).sum())
    counted = upper(alarms) * week_s / span_s
    expected = bound = None
    if not alarms and blocks > 2:
        usual = float(np.median(tops))
        excesses = tops[tops > usual] - usual
        scale = max(LEAST_SCALE, float(excesses.mean()) if excesses.size else 0.0)
        cautious = scale * (1.0 + CAUTION / math.sqrt(max(1, excesses.size)))
        half_a_week = 0.5 * blocks * week_s / span_s
        expected, bound = (half_a_week * math.exp(-(log_threshold - usual) / one) for one in (scale, cautious))
    return ReplayedRate(span_s, float(log_evidence.max()), alarms, counted, expected, bound)
