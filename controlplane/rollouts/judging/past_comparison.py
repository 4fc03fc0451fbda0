"""One metric of a canary whose past is known: a node compared with itself (pure). JSON in, JSON out.

What is compared is the change since the canary began of the difference between the arms: within strata (prompt
bucket, cache class), each with the offset that it had before (`evidence.arm_difference`), against how that difference
wanders by itself (`evidence.wander`). So other hardware, another mix of requests or of cache hits, and a slow drift of
machines are no harm and no gain. What fades after a restart (a cold start) is a part of the model, not of the verdict.

Lines: the typical request (scores by rank: near the limit of information for a shift of all), each quantile, the
tail (blind to a shift of all: a part of the requests that got much slower), and each prompt bucket. Each is judged at
its share of the error rate by e-processes, and told as a confidence sequence of the ratio by which latencies of the
past would have moved so far. Both hold at every look, as far as the noise is as fitted.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, PrivateAttr

from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.contract.metrics import WINDOW_S
from controlplane.rollouts.judging.compared_line import Line, Wanted, learn_line
from controlplane.rollouts.judging.evidence_of_metric import Tally, Window, bucket_of
from controlplane.rollouts.judging.interval_history import Moment, with_newest
from controlplane.rollouts.judging.score_sums import TAIL, TYPICAL, Scored, Yardstick, name_of, scored, usual_of

Ints = NDArray[np.int64]

LEAST_COUNT = 50
"""Requests of the past that a stratum needs; one with fewer is not judged."""
LEAST_SHARE, MOST_SHARE = 0.02, 0.9
"""A bucket with a smaller share of the evidence is too thin for a line of its own; one with a larger is all of them."""
LEVELS_PART = 0.6
"""Of the error rate; the rest is of what guards beside the levels."""


class Comparison(BaseModel):
    """The lines of one metric."""

    wanted: Wanted
    usual: dict[str, dict[int, int]]
    lines: dict[str, Line]
    control: Tally = Tally()
    canary: Tally = Tally()
    history: list[Moment] = []  # Of the first level's interval, a moment a look; thinned.
    unjudged: int = 0  # Requests of strata without a past.
    counted: dict[str, list[int]] = {}  # By stratum with a past: requests of control and canary.
    is_worse: bool = False
    is_faster: bool = False
    is_not_worse: bool = False
    _yardstick: Yardstick | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, past: Sequence[Window], wanted: Wanted) -> "Comparison | None":
        """None where the past is too young or too thin. past: all of its windows up to the canary, in order."""
        return cls.learn(usual_of(past), lambda yardstick: scored(past, yardstick), wanted)

    @classmethod
    def learn(
        cls, usual: Mapping[str, Ints], past: Callable[[Yardstick], Scored], wanted: Wanted
    ) -> "Comparison | None":
        """usual: by stratum, int64[axis]; past: the scores of all of its ticks, in order."""
        usual = {name: counts for name, counts in sorted(usual.items()) if counts.sum() >= LEAST_COUNT}
        if not usual:
            return None
        yardstick = Yardstick(usual, wanted.levels)
        seen = past(yardstick)
        lines: dict[str, Line] = {}
        for name, only, share in _lines(wanted, yardstick.strata, seen):
            line = learn_line(name, only, seen, yardstick, wanted, wanted.alpha * share)
            if line is None:
                return None
            lines[name] = line
        found = cls(wanted=wanted, usual={name: _sparse(counts) for name, counts in usual.items()}, lines=lines)
        found._yardstick = yardstick
        return found

    @property
    def yardstick(self) -> Yardstick:
        if self._yardstick is None:
            usual = {name: _dense(counts) for name, counts in self.usual.items()}
            self._yardstick = Yardstick(usual, self.wanted.levels)
        return self._yardstick

    def feed(self, window: Window, *, judged: bool = True) -> None:
        """Take one tick; judged: whether it may count (of a metric that holds waiting, an overloaded one does not)."""
        for place, (arm, tally) in enumerate(((window.control, self.control), (window.canary, self.canary))):
            for name, sketch in arm.items():
                tally.add(sketch)
                if name in self.usual:
                    self.counted.setdefault(name, [0, 0])[place] += sketch.count
                else:
                    self.unjudged += sketch.count
        self.take(scored([window if judged else Window()], self.yardstick))

    def take(self, seen: Scored) -> None:
        """Take the scores of the next ticks."""
        for line in self.lines.values():
            line.take(seen, concurrent=self.wanted.concurrent)

    def for_harm_alone(self) -> None:
        """Nothing good has to be shown by it, nor is."""
        self.wanted = self.wanted.model_copy(update={"shown": []})

    def settle(self, alpha: float, *, may_be_worse: bool = True) -> None:
        """Look at what has been shown; alpha: at which *not worse* is shown, each line by itself."""
        names = [name_of(level) for level in self.wanted.shown]
        for line in self.lines.values():
            line.look(
                gap_ticks=self.wanted.gap_ticks,
                fading_ticks=self.wanted.fading_ticks,
                episode_ticks=self.wanted.episode_ticks,
            )
            line.is_worse = line.is_worse or (may_be_worse and line.log_worse >= -math.log(line.alpha))
            self.is_worse = self.is_worse or line.is_worse
            self.is_faster = self.is_faster or (line.name in names and line.is_faster)
        self.is_not_worse = bool(names) and all(self.lines[name].is_not_worse(alpha) for name in names)
        first = self.lines[self._first_level]
        self.history = with_newest(self.history, first.moment(WINDOW_S * len(first.value)))

    @property
    def _first_level(self) -> str:
        return name_of(self.wanted.levels[0])

    def leaning(self) -> list[str]:
        """Lines with some evidence of harm."""
        return [line.name for line in self.lines.values() if line.leans]

    def needed_ticks(self, alpha: float) -> float:
        """Of the same traffic, until *not worse* is shown of an equal canary; infinite where they cannot be told.

        Evidence grows at most as time does, so this is the least.
        """
        ticks, factor = 0, 1.0
        for name in map(name_of, self.wanted.shown):
            line = self.lines[name]
            wanted = 2.0 * -math.log(alpha) / max(line.tolerated, 1e-9) ** 2
            ticks = len(line.value)
            factor = max(factor, wanted / line.information if line.information > 0.0 else math.inf)
        return ticks * (factor - 1.0)

    def evidence(self, alpha: float) -> dict[str, Any]:
        """The account of it: by line the ratio with its interval, and how that of the first level closed; natural logs,
        seconds."""
        needed_s = WINDOW_S * self.needed_ticks(alpha)
        findings = (
            ("worse", self.is_worse),
            ("faster", self.is_faster),
            ("not_worse", self.is_not_worse),
            ("leaning_worse", bool(self.leaning())),
        )
        return {
            "finding": next((name for name, holds in findings if holds), "undecided"),
            "by": "itself before" if self.wanted.concurrent else "its own history",
            "control": self.control.quantiles(),
            "canary": self.canary.quantiles(),
            "judged": {"control": self.control.count, "canary": self.canary.count},
            "strata": self.counted,
            "without_a_past": self.unjudged,
            "shown": [name_of(level) for level in self.wanted.shown],
            "needed_s": needed_s if self.wanted.shown and math.isfinite(needed_s) else None,
            "lines": {name: line.account(alpha) for name, line in self.lines.items()},
            "history": {"line": self._first_level, "moments": [one.model_dump() for one in self.history]},
            "log_bound_not_worse": -math.log(alpha),
        }


def _lines(wanted: Wanted, strata: Sequence[str], seen: Scored) -> list[tuple[str, Sequence[str], float]]:
    """Lines: name, strata, share of the error rate. Half is of the levels', half of what guards beside them."""
    names = [name_of(level) for level in wanted.levels]
    if not wanted.guarded:
        return [(name, strata, 1.0 / len(names)) for name in names]
    guards: list[tuple[str, Sequence[str]]] = [(TAIL, strata)]
    weight = seen.differences(TYPICAL, strata, wanted.concurrent).weight.sum(axis=0)
    for bucket in dict.fromkeys(bucket_of(name) for name in strata):
        mine = [name for name in strata if bucket_of(name) == bucket]
        share = sum(weight[strata.index(name)] for name in mine) / max(float(weight.sum()), 1e-12)
        if bucket and LEAST_SHARE <= share <= MOST_SHARE:
            guards.append((bucket, mine))
    first = [(name, strata, LEVELS_PART / len(names)) for name in names]
    return first + [(name, only, (1.0 - LEVELS_PART) / len(guards)) for name, only in guards]


def _sparse(counts: Ints) -> dict[int, int]:
    return {int(place): int(counts[place]) for place in np.flatnonzero(counts)}


def _dense(sparse: Mapping[int, int]) -> Ints:
    counts = np.zeros(AXIS_LENGTH, dtype=np.int64)
    for place, count in sparse.items():
        counts[place] = count
    return counts
