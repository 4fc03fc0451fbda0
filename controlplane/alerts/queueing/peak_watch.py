"""Whether a series is beyond what its own past reaches by bursts: when it has begun, and when it is over.

Guarantees: what is learnt lies `GUARD` before the tick that is judged, ends where the present rise began, and holds no
span of an alarm; while an alarm lasts what was learnt stays as it was. All memory is in the model's fields.
"""

import math

import numpy as np
from pydantic import BaseModel

from controlplane.alerts.queueing.return_level import Floats, Manner, ReturnLevel, return_level

GUARD_SHARE, GUARD_MIN_S, GUARD_MAX_S = 1 / 6, 40.0, 300.0
"""Of the past, as a regression's baseline keeps its distance."""
RISING = 1 / 8
"""A rise begins where the series was last under this part of the level (of the way there from its mean)."""
LEARN_EVERY_S = 60.0
LEARNS_RISE_S = 3600.0
"""A rise that has not reached the level in so long is what is usual by now."""
OVER, OVER_S = 0.5, 60.0
"""An alarm is over once the series has been under this part of the level (of the way from its mean) for so long."""


class PeakWatch(BaseModel):
    """`take` one tick after another. level: what is beyond; usual: the past's mean; onset_s: when the rise of the
    alarm began; closed: the spans of past alarms, seconds since the epoch."""

    level: ReturnLevel | None = None
    usual: float = 0.0
    learnt_s: float = -1e12
    alarmed: bool = False
    onset_s: float | None = None
    calm_since_s: float | None = None
    closed: list[tuple[float, float]] = []

    def take(
        self,
        values: Floats,
        start_s: float,
        step_s: float,
        manner: Manner,
        every_s: float,
        *,
        counts: bool = True,
        lasts_s: float = math.inf,
    ) -> None:
        """Judge the last tick of `values` (from `start_s` on, NaN where nothing is known).

        counts: whether it may raise an alarm; lasts_s: an alarm that lasts so long is the new normal.
        """
        if not values.size or not math.isfinite(values[-1]):
            return
        at_s, value = start_s + step_s * (values.size - 1), float(values[-1])
        if not self.alarmed and at_s - self.learnt_s >= LEARN_EVERY_S:
            self._learn(values, start_s, step_s, manner, every_s)
        if self.level is None:
            return
        if not self.alarmed:
            if counts and value > self.level.level:
                self.alarmed, self.calm_since_s = True, None
                self.onset_s = start_s + step_s * self._rise(values)
            return
        self._end(at_s, value, lasts_s)

    def _end(self, at_s: float, value: float, lasts_s: float) -> None:
        assert self.onset_s is not None
        if value > self._part(OVER):
            self.calm_since_s = None
        elif self.calm_since_s is None:
            self.calm_since_s = at_s
        settled = at_s - self.onset_s >= lasts_s
        if settled or (self.calm_since_s is not None and at_s - self.calm_since_s >= OVER_S):
            if not settled:
                self.closed.append((self.onset_s, at_s))
            self.alarmed, self.onset_s, self.calm_since_s, self.learnt_s = False, None, None, -1e12

    def _part(self, part: float) -> float:
        assert self.level is not None
        return self.usual + part * (self.level.level - self.usual)

    def _rise(self, values: Floats) -> int:
        """The first tick of the rise that the newest one is part of."""
        if self.level is None:
            return values.size
        low = np.flatnonzero(~(values > self._part(RISING)))
        return int(low[-1]) + 1 if low.size else 0

    def _learn(self, values: Floats, start_s: float, step_s: float, manner: Manner, every_s: float) -> None:
        end_s = start_s + step_s * values.size
        guard_s = min(max(GUARD_SHARE * step_s * values.size, GUARD_MIN_S), GUARD_MAX_S)
        rise_s = max(start_s + step_s * self._rise(values), end_s - LEARNS_RISE_S)
        stop = max(0, math.floor((min(end_s - guard_s, rise_s) - start_s) / step_s))
        past = values[:stop].copy()
        self.closed = [span for span in self.closed if span[1] > start_s]
        for begin_s, done_s in self.closed:
            first, last = (max(0, round((second - start_s) / step_s)) for second in (begin_s, done_s))
            past[first:last] = np.nan
        level = return_level(past, step_s, every_s, manner)
        if level is not None:
            self.level, self.usual, self.learnt_s = level, float(np.nanmean(past)), end_s - step_s
