"""Has the level of a stream risen, and since when? Every onset at once, at each tick. Pure.

The stream is a series of tick means with known sampling variances. Its past is cut into spans, short ones near the
present and long ones far from it; the spans' means are jointly normal, their covariance that of sampling and of the
usual wandering (`wander`), the level itself unknown. For a rise of m since the end of one span the likelihood ratio
against a rise that is tolerated is then in closed form: this is the best that can be made of the spans' means, whether
the rise shows as a jump that is quicker than the wandering, or as a level that wandering does not explain.

The evidence is the sum of the ratios over the onsets (Shiryaev and Roberts), the weighted mean over alternatives. It is
a function of the series alone: nothing is remembered. A tick counts at most `TICK_LIMIT` of its own standard deviations
from the usual level, so that one freak tick is no alarm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from controlplane.evidence.wander import Wander

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
TYPICAL_RISE = 0.5
"""For which the interval of an estimate is narrowest, in units of one request's score."""
SKEW_COUNTS = 5.0 / 3.0
"""The mean of n requests' scores lies z standard deviations out as often as a normal one would by the power 1 / (1 + z
skewness / (3 sqrt(n))) (Cramer): what that takes off where z is 5, as it is at an alarm."""
ENOUGH = 800
"""Requests that are taken as normal whatever their scores' skewness: caution with what they share outdoes it."""
NOTHING = 1e6
"""The sampling variance of a span without requests."""
HINT_SPANS = np.array([2, 4, 8, 16, 32, 64, 128, 256, 512, 1024])
HINT_PLACES = np.concatenate([[0], HINT_SPANS, 5 * HINT_SPANS])
HINT = 2.5
"""A rise has to show in the mean of one of these spans, against the ticks before it or the usual level, by so many
standard deviations of sampling and of quick noise; where none does there is no evidence worth its computation."""
BACK_SPANS = (6, 12, 24, 48, 96, 192)
"""Over so many of the newest ticks a level may show that it is back."""


class Sums:
    """Running sums of a series: of weights, weighted values, squared weights times variances, and weighted values that
    are not held back by `TICK_LIMIT`."""

    def __init__(self, wander: Wander, level: float, capacity: int = 1024) -> None:
        """level: the usual one."""
        self.ticks = 0
        self._wander, self._level = wander, level
        self._quick, self._tick = wander.quick, wander.tick
        self._sums = np.zeros((4, capacity + 1))

    @property
    def now(self) -> Floats:
        """float64[4, ticks + 1]."""
        return self._sums[:, : self.ticks + 1]

    @classmethod
    def of(
        cls, values: Floats, sampling: Floats, wander: Wander, level: float, reached: Floats | None = None
    ) -> "Sums":
        """As after `push` of each. reached: float64[ticks], up to which a value counts beyond `TICK_LIMIT` too."""
        return cls(wander, level, 0).extended(values, sampling, reached)

    def extended(self, values: Floats, sampling: Floats, reached: Floats | None = None) -> "Sums":
        """Another, as this one after `push` of each."""
        made = Sums(self._wander, self._level, self.ticks + values.size + 1024)
        made.ticks = self.ticks + values.size
        made._sums[:, : self.ticks + 1] = self.now
        added = np.array(self._added(values, sampling, reached))
        made._sums[:, self.ticks + 1 : made.ticks + 1] = np.cumsum(added, axis=1) + self.now[:, -1:]
        return made

    def push(self, value: float, sampling: float) -> None:
        """value: a tick's mean, nan where there was nothing; sampling: its variance."""
        if self.ticks + 1 == self._sums.shape[1]:
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)], axis=1)
        weights, total, spread, whole = self._sums[:, self.ticks].tolist()
        self.ticks += 1
        if math.isfinite(value):
            weight = 1.0 / (sampling + self._quick + 1e-12)
            limit = TICK_LIMIT * math.sqrt(sampling + self._tick)
            above = value - self._level
            held = min(max(above, -limit), limit)
            weights, total = weights + weight, total + weight * held
            spread, whole = spread + weight * weight * sampling, whole + weight * above
        self._sums[:, self.ticks] = weights, total, spread, whole

    def _added(self, values: Floats, sampling: Floats, reached: Floats | None) -> tuple[Floats, ...]:
        known = np.isfinite(values)
        variance = np.where(known, sampling, 0.0)
        limit = TICK_LIMIT * np.sqrt(variance + self._tick)
        above = np.where(known, values, self._level) - self._level
        weight = np.where(known, 1.0 / (variance + self._quick + 1e-12), 0.0)
        most = limit if reached is None else np.maximum(limit, reached - self._level)
        return weight, weight * np.clip(above, -limit, most), weight**2 * variance, weight * above


@dataclass(frozen=True)
class Scan:
    """edges: int64[spans + 1]; common: float64[spans, spans], the covariance of the spans' levels; quick: float64[10],
    the variance of the quick noise's mean over each of `HINT_SPANS`."""

    wander: Wander
    edges: Ints
    common: Floats
    quick: Floats

    @classmethod
    def of(cls, wander: Wander, ticks: int) -> "Scan":
        """ticks: how many there are to compare with."""
        edges = np.array([edge for edge in EDGES if edge < ticks] + [max(ticks, 3)], dtype=np.int64)
        common = wander.covariance(edges.astype(np.float64)) + LEVEL_VARIANCE
        return cls(wander, edges, common, np.array([wander.quick_over(int(span)) for span in HINT_SPANS]))

    def hint(self, sums: Sums) -> bool:
        """Whether the newest ticks are worth a look: cheap, and true long before the evidence is an alarm's."""
        return bool(self.hints(sums, np.array([sums.ticks]))[0])

    def hints(self, sums: Sums, ends: Ints, least: float = HINT) -> NDArray[np.bool_]:
        """The same after each of so many ticks, bool[ends]; least: standard deviations."""
        at = sums.now[:3].take(np.maximum(ends[:, None] - HINT_PLACES, 0), axis=1)
        return _hinted(at, self.quick, least)

    @cached_property
    def onsets(self) -> Ints:
        """The places in `edges` at which a rise may have begun."""
        usable = (self.edges >= FIRST_ONSET) & (self.edges <= LAST_ONSET)
        usable[-1] = False
        return np.flatnonzero(usable)

    @cached_property
    def log_gaps(self) -> Floats:
        """ln of how many ticks each onset stands for."""
        onsets = self.onsets
        return np.asarray(np.log(np.diff(self.edges[np.concatenate([[onsets[0] - 1], onsets])])))

    def parts(
        self,
        sums: Sums,
        ends: Ints,
        alternatives: Sequence[float],
        weights: Sequence[float],
        tolerated: float,
        skewness: float = 0.0,
    ) -> Floats:
        """ln of each onset's and each alternative's share of the evidence, float64[ends, onsets, alternatives].

        ends: ticks seen so far, int64[ends]; alternatives, tolerated: rises of the mean score; weights: of the
        alternatives, 1 in sum; skewness: of one request's score, for which few requests count less.
        """
        shown, scale = self._shown(sums, ends)
        m = np.asarray(alternatives)
        ratio = shown[..., None] * (m - tolerated) - scale[..., None] * (m**2 - tolerated**2) / 2.0
        if skewness > 0.0:
            ratio /= self._overrated(sums, ends, skewness)[..., None]
        return np.asarray(ratio + self.log_gaps[:, None] + np.log(weights))

    def rise(self, sums: Sums, since: int) -> tuple[float, float]:
        """How far the newest `since` ticks (as nearly as spans can tell) lie above the level.

        The best estimate, and half the width of its interval, which holds at 95 % however long one has looked on
        (Robbins' normal mixture).
        """
        place = int(np.abs(self.edges[self.onsets] - since).argmin())
        shown, scale = (float(one[0, place]) for one in self._shown(sums, np.array([sums.ticks]), whole=True))
        mixed = scale + 1.0 / TYPICAL_RISE**2
        width = math.sqrt(mixed * (math.log(mixed * TYPICAL_RISE**2) + 2.0 * math.log(1.0 / 0.05))) / scale
        return shown / scale, width

    def _shown(self, sums: Sums, ends: Ints, *, whole: bool = False) -> tuple[Floats, Floats]:
        """For a rise since each onset: what the spans' means show of it, and how much a rise of 1 would.

        float64[ends, onsets] each. whole: of values that are not held back.
        """
        means, sampling = self._spans(sums, ends, whole)
        risen, total = self._risen, self.common + sampling[:, :, None] * np.eye(sampling.shape[1])
        solved = np.linalg.solve(total, np.broadcast_to(risen, (ends.size, *risen.shape)))
        return np.einsum("es,eso->eo", means, solved), np.einsum("so,eso->eo", risen, solved)

    def _overrated(self, sums: Sums, ends: Ints, skewness: float) -> Floats:
        """By how much a normal mean would say too much of the requests since each onset, float64[ends, onsets]."""
        since = np.maximum(ends[:, None] - self.edges[self.onsets], 0)
        weight, _, spread, _ = sums.now[:, ends, None] - sums.now[:, since]
        requests = weight**2 / np.maximum(spread, 1e-300)
        few = 1.0 / np.sqrt(np.maximum(requests, 1.0)) - 1.0 / math.sqrt(ENOUGH)
        return np.asarray(1.0 + SKEW_COUNTS * skewness * np.maximum(few, 0.0))

    @cached_property
    def _risen(self) -> Floats:
        """float64[spans, onsets], 1 of the spans since each onset."""
        return (np.arange(self.edges.size - 1)[:, None] < self.onsets[None, :]).astype(np.float64)

    def back(self, sums: Sums, since: int, rise: float) -> float:
        """ln of the evidence that a level which rose by `rise` is at the usual one again, by some of its newest ticks.

        since: how many ticks ago it rose. The slow wandering is left out: the level is to be back where it was, not
        where it might have wandered meanwhile.
        """
        best = 0.0
        for ticks in BACK_SPANS:
            if ticks > since or ticks > sums.ticks:
                break
            weight, _, spread, value = sums.now[:, -1] - sums.now[:, -1 - ticks]
            if weight > 0.0:
                mean, sampling = value / weight, spread / weight**2
                variance = sampling + self.wander.quick_over(ticks)
                best = max(best, -(mean * rise - rise**2 / 2.0) / variance)
        return best

    def _spans(self, sums: Sums, ends: Ints, whole: bool) -> tuple[Floats, Floats]:
        """The spans' means and their sampling variances, float64[ends, spans]."""
        at = np.maximum(ends[:, None] - self.edges[None, :], 0)
        weight, held, spread, value = sums.now[:, at[:, :-1]] - sums.now[:, at[:, 1:]]
        value = value if whole else held
        some = weight > 0.0
        divisor = np.where(some, weight, 1.0)
        return np.where(some, value / divisor, 0.0), np.where(some, spread / divisor**2, NOTHING)


def hint_each(series: Sequence[tuple[Scan, Sums]]) -> list[bool]:
    """`Scan.hint` of each: of a dozen at once, which costs little more than of one."""
    if not series:
        return []
    at = np.stack([sums.now[:3].take(_hint_places(sums.ticks), axis=1) for _, sums in series], axis=1)
    return [bool(one) for one in _hinted(at, np.stack([scan.quick for scan, _ in series]), HINT)]


@lru_cache(maxsize=64)
def _hint_places(ticks: int) -> Ints:
    return np.asarray(np.maximum(ticks - HINT_PLACES, 0))


def _hinted(at: Floats, quick: Floats, least: float) -> NDArray[np.bool_]:
    """at: the sums at each of `HINT_PLACES`, float64[3, n, places]; quick: float64[n or none, spans]."""
    now, last, before = at[..., :1], at[..., 1 : 1 + HINT_SPANS.size], at[..., 1 + HINT_SPANS.size :]
    weight, value, spread = now - last
    old_weight, old_value = last[:2] - before[:2]
    weight = weight + 1e-12
    risen = value / weight - np.minimum(old_value / (old_weight + 1e-12), 0.0)
    return np.asarray((risen * np.abs(risen) > least**2 * (spread / weight**2 + quick)).any(axis=-1))


def total(parts: Floats) -> Floats:
    """ln of the sum over onsets and alternatives: float64[ends]."""
    flat = parts.reshape(parts.shape[0], -1)
    top = flat.max(axis=1)
    return np.asarray(np.log(np.exp(flat - top[:, None]).sum(axis=1)) + top)
