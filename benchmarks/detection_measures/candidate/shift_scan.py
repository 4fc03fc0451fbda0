"""Has the level of a stream risen, and since when? Every onset at once, at each tick. Pure.

The stream is a series of tick means with known sampling variances. Its past is cut into spans, short ones near the
present and long ones far from it; the spans' means are jointly normal, their covariance that of sampling and of the
usual wandering (`wander`), the level itself unknown. For a rise of m since the end of one span the likelihood ratio
against a rise that is tolerated is then in closed form: this is the best that can be made of the spans' means, whether
the rise shows as a jump that is quicker than the wandering, or as a level that wandering does not explain.

The evidence is the sum of the ratios over the onsets (Shiryaev and Roberts), the mean over alternatives. It is a
function of the series alone: nothing is remembered. A tick counts at most `TICK_LIMIT` of its own standard deviations
from the usual level, so that one freak tick is no alarm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.candidate.wander import Wander

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TICK_LIMIT = 3.5
EDGES = (
    *(0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768),
    *(1024, 1536, 2304, 3456, 5184, 7776, 17280, 51840, 155520),
)
"""Ends of the spans, in ticks before the present."""
FIRST_ONSET, LAST_ONSET = 2, 1024
LEVEL_VARIANCE = 4.0
"""Of the unknown level, in units of one request's score: as good as unknown."""
NOTHING = 1e6
"""The sampling variance of a span without requests."""


@dataclass(frozen=True)
class Sums:
    """Running sums of a series: float64[ticks + 1] each, of weights, weighted values, squared weights x variances."""

    weight: Floats
    value: Floats
    spread: Floats

    @classmethod
    def of(cls, values: Floats, sampling: Floats, wander: Wander, level: float) -> "Sums":
        """values: float64[ticks], nan where there was nothing; sampling: the variance of each; level: the usual one."""
        known = np.isfinite(values)
        variance = np.where(known, sampling, 0.0)
        limit = TICK_LIMIT * np.sqrt(variance + wander.tick)
        kept = np.where(known, np.clip(np.where(known, values, level) - level, -limit, limit), 0.0)
        weight = np.where(known, 1.0 / (variance + wander.quick + 1e-12), 0.0)
        return cls(*(np.concatenate([[0.0], np.cumsum(one)]) for one in (weight, weight * kept, weight**2 * variance)))


@dataclass(frozen=True)
class Scan:
    """edges: int64[spans + 1]; common: float64[spans, spans], the covariance of the spans' levels."""

    edges: Ints
    common: Floats

    @classmethod
    def of(cls, wander: Wander, ticks: int) -> "Scan":
        """ticks: how many there are to compare with."""
        edges = np.array([edge for edge in EDGES if edge < ticks] + [max(ticks, 3)], dtype=np.int64)
        return cls(edges, wander.covariance(edges.astype(np.float64)) + LEVEL_VARIANCE)

    @property
    def onsets(self) -> Ints:
        """The places in `edges` at which a rise may have begun."""
        usable = (self.edges >= FIRST_ONSET) & (self.edges <= LAST_ONSET)
        usable[-1] = False
        return np.flatnonzero(usable)

    def parts(self, sums: Sums, ends: Ints, alternatives: Sequence[float], tolerated: float) -> Floats:
        """ln of each onset's and each alternative's share of the evidence, float64[ends, onsets, alternatives].

        ends: ticks seen so far, int64[ends]; alternatives, tolerated: rises of the mean score.
        """
        means, sampling = self._spans(sums, ends)
        onsets = self.onsets
        risen = (np.arange(self.edges.size - 1)[:, None] < onsets[None, :]).astype(np.float64)
        total = self.common + sampling[:, :, None] * np.eye(sampling.shape[1])
        solved = np.linalg.solve(total, np.broadcast_to(risen, (ends.size, *risen.shape)))
        scale = np.einsum("so,eso->eo", risen, solved)
        shown = np.einsum("es,eso->eo", means, solved)
        m = np.asarray(alternatives)
        ratio = shown[..., None] * (m - tolerated) - scale[..., None] * (m**2 - tolerated**2) / 2.0
        gaps = np.diff(self.edges[np.concatenate([[onsets[0] - 1], onsets])])
        return np.asarray(ratio + np.log(gaps)[:, None])

    def _spans(self, sums: Sums, ends: Ints) -> tuple[Floats, Floats]:
        """The spans' means and their sampling variances, float64[ends, spans]."""
        at = np.maximum(ends[:, None] - self.edges[None, :], 0)
        weight = sums.weight[at[:, :-1]] - sums.weight[at[:, 1:]]
        some = weight > 0.0
        divisor = np.where(some, weight, 1.0)
        means = np.where(some, (sums.value[at[:, :-1]] - sums.value[at[:, 1:]]) / divisor, 0.0)
        spread = (sums.spread[at[:, :-1]] - sums.spread[at[:, 1:]]) / divisor**2
        return means, np.where(some, spread, NOTHING)


def total(parts: Floats) -> Floats:
    """ln of (the sum over onsets of the mean over alternatives): float64[ends]."""
    flat = parts.reshape(parts.shape[0], -1)
    top = flat.max(axis=1)
    return np.asarray(np.log(np.exp(flat - top[:, None]).sum(axis=1)) + top - math.log(parts.shape[-1]))
