"""Sums of scores by tick, arm and stratum: what a comparison makes of windows (pure). See `evidence.scores`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from controlplane.evidence.arm_difference import Differences
from controlplane.evidence.quantile_score import above
from controlplane.evidence.scores import Scoring, location, tail
from controlplane.rollouts.judging.evidence_of_metric import Window

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TYPICAL, TAIL = "typical", "tail"
"""Lines by rank, and by what grows in the tail; those of other quantiles are called after them."""


def name_of(level: float) -> str:
    return TYPICAL if level == 0.5 else quantile_name(level)


def quantile_name(q: float) -> str:
    return f"p{100 * q:g}"


@dataclass(frozen=True)
class Yardstick:
    """Scores of the usual requests, by stratum."""

    usual: Mapping[str, Ints]
    levels: Sequence[float]

    @property
    def strata(self) -> list[str]:
        return list(self.usual)

    @property
    def kinds(self) -> list[str]:
        return list(self.by_line)

    @cached_property
    def tables(self) -> list[Floats]:
        """By stratum float64[kinds, axis]."""
        return [np.array([self.by_line[kind][name].table for kind in self.kinds]) for name in self.usual]

    @cached_property
    def typical(self) -> dict[str, Scoring]:
        return {name: location(counts) for name, counts in self.usual.items()}

    @cached_property
    def by_line(self) -> dict[str, dict[str, Scoring]]:
        found = {TYPICAL: self.typical, TAIL: {name: tail(counts) for name, counts in self.usual.items()}}
        for q in self.levels:
            if q != 0.5:
                found[quantile_name(q)] = {name: above(counts, q) for name, counts in self.usual.items()}
        return found

    def scoring(self, line: str) -> dict[str, Scoring]:
        return self.by_line.get(line, self.typical)


@dataclass(frozen=True)
class Scored:
    """Some ticks: float64[ticks, strata] each, of control and canary: counts, and by kind of score their sums; squares:
    by kind float64[strata], the sums of squared scores of all of them."""

    strata: Sequence[str]
    counts: tuple[Floats, Floats]
    scores: Mapping[str, tuple[Floats, Floats]]
    squares: Mapping[str, Floats]

    def moments(self, line: str, strata: Sequence[str]) -> Floats:
        """float64[3, strata]: how many requests of both arms, the sum of their scores, and of its squares."""
        places = [self.strata.index(name) for name in strata]
        kind = line if line in self.scores else TYPICAL
        counts, sums = (arms[0].sum(axis=0) + arms[1].sum(axis=0) for arms in (self.counts, self.scores[kind]))
        return np.array([counts, sums, self.squares[kind]])[:, places]

    def typical(self, strata: Sequence[str]) -> Floats:
        """The control's mean score by rank, float64[ticks]; 0 where there was nothing."""
        places = [self.strata.index(name) for name in strata]
        counts = self.counts[0][:, places].sum(axis=1)
        return np.asarray(self.scores[TYPICAL][0][:, places].sum(axis=1) / np.maximum(counts, 1.0))

    def differences(self, line: str, strata: Sequence[str], concurrent: bool) -> Differences:
        """Of the canary against the control, or alone."""
        places = [self.strata.index(name) for name in strata]
        control, canary = (one[:, places] for one in self.counts)
        theirs, mine = (one[:, places] for one in self.scores.get(line, self.scores[TYPICAL]))
        return Differences.of(canary, mine, control, theirs) if concurrent else Differences.alone(canary, mine)


def usual_of(windows: Sequence[Window]) -> dict[str, Ints]:
    """By stratum the requests of both arms."""
    found: dict[str, Ints] = {}
    for window in windows:
        for arm in (window.control, window.canary):
            for name, sketch in arm.items():
                found[name] = found[name] + sketch.counts if name in found else sketch.counts.copy()
    return found


def scored(windows: Sequence[Window], yardstick: Yardstick) -> Scored:
    """The scores of windows, a tick each; of strata without a past nothing."""
    shape = (len(windows), len(yardstick.strata))
    counts = np.zeros(shape), np.zeros(shape)
    scores = {kind: (np.zeros(shape), np.zeros(shape)) for kind in yardstick.kinds}
    squares = {kind: np.zeros(len(yardstick.strata)) for kind in yardstick.kinds}
    for tick, window in enumerate(windows):
        for arm, sketches in enumerate((window.control, window.canary)):
            for place, name in enumerate(yardstick.strata):
                sketch = sketches.get(name)
                if sketch is None:
                    continue
                some = np.flatnonzero(sketch.counts)
                held = sketch.counts[some]
                counts[arm][tick, place] = held.sum()
                table = yardstick.tables[place][:, some]
                for kind, value, square in zip(yardstick.kinds, table @ held, table**2 @ held, strict=True):
                    scores[kind][arm][tick, place] = value
                    squares[kind][place] += square
    return Scored(yardstick.strata, counts, scores, squares)
