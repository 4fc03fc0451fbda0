"""Whether the level of a series has risen beyond what it wanders by itself: since when, and when it is back.

A day's curve and bursts are wandering, at time constants from seconds to two hours, and fitted to the series' own past
(`evidence.wander`); a rise is asked for at every onset at once (`evidence.shift_scan`). All memory is in the model's
fields: the fit, renewed each hour, and the alarm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel

from controlplane.alerts.queueing.return_level import Floats
from controlplane.evidence import wander
from controlplane.evidence.e_detector import RECOVERED
from controlplane.evidence.shift_scan import Scan, Sums
from controlplane.evidence.wander import TAUS_TICKS, Wander

MATURE_S = 3600.0
"""A shorter past has not shown how the series wanders."""
GUARD_S, LEARN_EVERY_S = 300.0, 3600.0
LASTING_S, LASTING_TICKS = 30.0, 3
"""One freak tick is held back (`shift_scan.TICK_LIMIT`); a level that all of so many have reached is none. Held
back too, the evidence of a load that doubles and stays would end below an alarm where traffic is calm."""


@dataclass(frozen=True)
class Series:
    """float64[ticks] each, from `start_s` on: `total` of `count` things a tick, and the sum of their squares; without
    squares each tick counts arrivals, whose variance is their mean (Poisson)."""

    start_s: float
    step_s: float
    total: Floats
    count: Floats
    squares: Floats | None = None


@dataclass(frozen=True)
class Rises:
    """What counts as a rise, in units of one thing's spread, of arrivals in parts of the usual; `tolerated` is none."""

    alternatives: Sequence[float]
    tolerated: float


class LevelWatch(BaseModel):
    """mean, unit: of the past, in the series' unit, what rises are told in; own: the variance of one thing, variances:
    of the wandering (`TAUS_TICKS`), both in squared units; rise: of the alarm; closed: spans of past alarms, seconds
    since the epoch."""

    mean: float = 0.0
    unit: float = 1.0
    own: float = 1.0
    variances: tuple[float, ...] = ()
    level: float = 0.0
    usual: int = 0
    learnt_s: float = -1e12
    alarmed: bool = False
    onset_s: float | None = None
    rise: float = 0.0
    closed: list[tuple[float, float]] = []

    def take(self, series: Series, rises: Rises, log_threshold: float, lasts_s: float) -> None:
        """Judge the last tick; an alarm that lasts `lasts_s` is the new normal."""
        at_s = series.start_s + series.step_s * (series.total.size - 1)
        if not self.alarmed and at_s - self.learnt_s >= LEARN_EVERY_S:
            self._learn(series, at_s)
        if not self.variances:
            return
        noise = Wander(self.variances)
        values, sampling = self._standard(series)
        reached = _reached_by_all(values, max(LASTING_TICKS, round(LASTING_S / series.step_s)))
        scan, sums = Scan.of(noise, self.usual), Sums.of(values, sampling, noise, self.level, reached)
        if self.alarmed:
            self._end(scan, sums, series, at_s, lasts_s)
            return
        if not scan.hint(sums):
            return
        alike = np.full(len(rises.alternatives), 1.0 / len(rises.alternatives))
        parts = scan.parts(sums, np.array([sums.ticks]), rises.alternatives, alike.tolist(), rises.tolerated)[0]
        top = float(parts.max())
        if top + math.log(float(np.exp(parts - top).sum())) < log_threshold:
            return
        onset, rise = np.unravel_index(int(parts.argmax()), parts.shape)
        ago = int(scan.edges[scan.onsets][int(onset)])
        self.alarmed, self.rise = True, rises.alternatives[int(rise)]
        self.onset_s = max(series.start_s, at_s + series.step_s * (1 - ago))

    def _end(self, scan: Scan, sums: Sums, series: Series, at_s: float, lasts_s: float) -> None:
        assert self.onset_s is not None
        since = round((at_s - self.onset_s) / series.step_s) + 1
        settled = at_s - self.onset_s >= lasts_s
        if not settled and scan.back(sums, since, self.rise) < RECOVERED:
            return
        if not settled:
            self.closed.append((self.onset_s, at_s))
        self.alarmed, self.onset_s, self.learnt_s = False, None, -1e12
        self.variances = () if settled else self.variances

    def _standard(self, series: Series) -> tuple[Floats, Floats]:
        """Means of ticks and their sampling variances, in units; NaN where there is nothing."""
        known = series.count > 0.0
        count = np.where(known, series.count, 1.0)
        values = np.where(known, (series.total / count - self.mean) / self.unit, np.nan)
        at = series.start_s + series.step_s * np.arange(values.size)
        for begin_s, done_s in self.closed:
            values[(at >= begin_s) & (at < done_s)] = np.nan
        return values, self.own / count

    def _learn(self, series: Series, at_s: float) -> None:
        stop = series.total.size - round(GUARD_S / series.step_s)
        self.closed = [span for span in self.closed if span[1] > series.start_s]
        whole = float(series.count[: max(stop, 0)].sum())
        if stop * series.step_s < MATURE_S or not whole:
            return
        self.mean = float(series.total[:stop].sum()) / whole
        if series.squares is None:
            self.unit, self.own = max(self.mean, 1e-9), 1.0 / max(self.mean, 1e-9)
        else:
            variance = float(series.squares[:stop].sum()) / whole - self.mean**2
            self.unit, self.own = math.sqrt(max(variance, 1e-9)), 1.0
        values, sampling = (one[:stop] for one in self._standard(series))
        noise = wander.fit(values, sampling, [0.0] * len(TAUS_TICKS))
        known = np.isfinite(values)
        self.variances, self.usual, self.learnt_s = tuple(noise.variances), stop, at_s
        self.level = float(np.average(values[known], weights=1.0 / (sampling[known] + noise.tick)))


def _reached_by_all(values: Floats, ticks: int) -> Floats:
    """At each tick what it and those before it, so many in all, have reached; -inf where one of them is not known."""
    known = np.where(np.isfinite(values), values, -np.inf)
    reached = known.copy()
    for ago in range(1, ticks):
        np.minimum(reached[ago:], known[:-ago], out=reached[ago:])
    reached[: ticks - 1] = -np.inf
    return reached
