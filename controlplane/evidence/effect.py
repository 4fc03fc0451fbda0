"""What has changed since a known moment: the rise of a line, with an interval that holds at every look. Pure.

A line is a series of tick means with known sampling variances: before the moment nothing had changed, after it
everything may have. Both sides are cut into spans, short ones near the moment and long ones far from it. The spans'
means are jointly normal: sampling, plus the usual wandering (`wander`), plus an unknown level, plus what fades after
the moment (a cold start). The rise is the generalised least squares estimate under that covariance: the level before
is carried as what is known of it, with its uncertainty, never as a constant.

The interval is a confidence sequence (Robbins' normal mixture; H. Robbins, Ann. Math. Stat. 41, 1970): it holds the
true rise at all times together, each side with the error rate asked for, as far as the covariance is true.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.evidence.shift_scan import EDGES, LEVEL_VARIANCE, NOTHING
from controlplane.evidence.wander import Wander

Floats = NDArray[np.float64]

TYPICAL_RISE = 0.2
"""For which the interval is narrowest, in units of one request's score."""
FADING_VARIANCE = 100.0
"""Of what fades after the moment: as good as unknown."""


@dataclass(frozen=True)
class Spans:
    """Neighbouring spans of ticks. edges: float64[spans + 1], ascending; means, sampling: float64[spans]."""

    edges: Floats
    means: Floats
    sampling: Floats


@dataclass(frozen=True)
class Rise:
    """estimate: in units of one request's score; information: the inverse of its variance."""

    estimate: float
    information: float

    def interval(self, alpha: float) -> tuple[float, float]:
        """Low and high; either is missed at any time, ever, with a probability of at most `alpha` (below one half)."""
        if self.information <= 0.0:
            return -math.inf, math.inf
        return self.estimate - self._width(alpha), self.estimate + self._width(alpha)

    def _width(self, alpha: float) -> float:
        mixed = self.information + 1.0 / TYPICAL_RISE**2
        return math.sqrt(mixed * (math.log(mixed * TYPICAL_RISE**2) + 2.0 * math.log(0.5 / alpha))) / self.information

    def log_evidence(self, against: float, alternatives: Sequence[float]) -> float:
        """ln of the mean likelihood ratio of `alternatives`, all on one side of `against`: an e-process of `against`
        and of all that lies on its other side."""
        ratios = [self.information * (one - against) * (self.estimate - (one + against) / 2.0) for one in alternatives]
        top = max(ratios)
        return top + math.log(sum(math.exp(one - top) for one in ratios) / len(ratios))

    def log_likelihood_ratio(self, against: float) -> float:
        """ln of the likelihood of the estimate over that of a rise `against`."""
        return 0.5 * self.information * (self.estimate - against) ** 2

    def needed(self, width: float, alpha: float) -> float:
        """By how much the information has to grow until the interval is `width` wide to either side; at least 1."""
        if self.information <= 0.0:
            return math.inf
        factor = 1.0
        while Rise(0.0, factor * self.information)._width(alpha) > width:
            factor *= 1.05
            if factor > 1e3:
                return math.inf
        return factor


NO_RISE = Rise(0.0, 0.0)


def spans_before(values: Floats, sampling: Floats, wander: Wander) -> Spans:
    """values: float64[ticks] up to the moment, nan where there was nothing; sampling: the variance of each."""
    ticks = values.size
    edges = np.array([edge for edge in EDGES if edge < ticks] + [ticks], dtype=np.float64)
    return _spans(values, sampling, wander, ticks - edges[::-1], -edges[::-1])


def rise(
    before: Spans,
    values: Floats,
    sampling: Floats,
    wander: Wander,
    *,
    gap: float,
    fading: float = 0.0,
    offset_variance: float = 0.0,
) -> Rise:
    """The rise since the moment.

    gap: ticks between what is known of before and the first of `values`; fading: the time constant in ticks of what
    fades after the moment, 0: nothing does; offset_variance: of the level's, what the two sides do not share.
    """
    ticks = values.size
    if not np.isfinite(values).any():
        return NO_RISE
    inner = np.array([edge for edge in EDGES if edge < ticks] + [ticks], dtype=np.float64)
    after = _spans(values, sampling, wander, inner, inner + gap)
    between = [0.0] if gap > 0.0 else []
    edges = np.concatenate([before.edges, after.edges if between else after.edges[1:]])
    means = np.concatenate([before.means, between, after.means])
    noise = np.concatenate([before.sampling, [NOTHING] * len(between), after.sampling])
    risen = np.concatenate([np.zeros(before.means.size), between, np.ones(after.means.size)])
    total = wander.covariance(edges) + LEVEL_VARIANCE + np.diag(noise)
    if fading > 0.0:
        shape = np.concatenate([np.zeros(before.means.size + len(between)), _faded(inner / fading)])
        total = total + FADING_VARIANCE * np.outer(shape, shape)
    solved = np.linalg.solve(total, risen)
    information = float(risen @ solved)
    estimate = float(means @ solved) / information
    return Rise(estimate, 1.0 / (1.0 / information + offset_variance))


def _faded(edges: Floats) -> Floats:
    """Means of exp(-t) over spans; edges in time constants."""
    return np.asarray((np.exp(-edges[:-1]) - np.exp(-edges[1:])) / np.diff(edges))


def _spans(values: Floats, sampling: Floats, wander: Wander, cuts: Floats, edges: Floats) -> Spans:
    known = np.isfinite(values)
    variance = np.where(known, sampling, 0.0)
    weight = np.where(known, 1.0 / (variance + wander.quick + 1e-12), 0.0)
    starts = cuts[:-1].astype(np.int64)
    weights = np.add.reduceat(weight, starts)
    some = weights > 0.0
    divisor = np.where(some, weights, 1.0)
    means = np.add.reduceat(weight * np.where(known, values, 0.0), starts) / divisor
    spread = np.add.reduceat(weight**2 * variance, starts) / divisor**2
    return Spans(edges, np.where(some, means, 0.0), np.where(some, spread, NOTHING))
