"""A detector over many windows at once: those in which nothing comes near an alarm are passed over. Pure.

A course remembers nothing but its series, so that what it will show at each tick until baselines are renewed can be
computed at once. Where that comes nowhere near an alarm the ticks are taken in and passed over; what is judged by
exceedances takes each. Where it does, where the load or a prompt bucket is new, where something is in alarm, ticks are
missing or the pool's record says anything, the detector itself takes tick after tick.

Guarantee: what comes into alarm, and when, is what the detector says tick by tick.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.regressions.course import Course, Line, Wanted
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.regressions.learner import MATURE_REFRESH_S, REFRESH_MAX_S
from controlplane.alerts.regressions.node_course import Grid, NodeCourse
from controlplane.alerts.regressions.stacked_tails import Stack
from controlplane.alerts.regressions.yardstick import ScoredEach
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.pool_record import NOTHING_KNOWN, PoolRecord

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

CLEAR_HINT = 3.0
"""Without so clear a sign of a rise a line is far from an alarm."""
LOUD = 2.0
"""So far under its threshold (in nats) a line's evidence is taken seriously."""


@dataclass(frozen=True)
class Ahead:
    """A stretch of ticks, each `width_s`, from `first_s` on until baselines are renewed at the latest. courses:
    those of which this is.

    loud: bool[ticks], which the detector has to see itself; told: of each line of the courses, what it will be told
    (mean and variance, float64[ticks] each); nodes: of each course of nodes what it will be.
    """

    first_s: float
    width_s: float
    courses: Sequence[Course | NodeCourse | None]
    loud: Flags
    told: Sequence[tuple[Line[Wanted], Floats, Floats]]
    nodes: Sequence[tuple[NodeCourse, Grid]]

    def holds(self, at_s: float, courses: Sequence[Course | NodeCourse | None]) -> bool:
        """Whether it says anything of that tick, and of the courses as they are."""
        same = len(courses) == len(self.courses) and all(a is b for a, b in zip(courses, self.courses, strict=True))
        return same and at_s < self.first_s + self.loud.size * self.width_s - self.width_s / 2.0


class LookAhead:
    """Of one detector. nearest: how near a line came to an alarm, in nats (0: it was one), among those looked at."""

    def __init__(self, detector: Detector) -> None:
        self.nearest = -math.inf
        self._detector = detector
        self._ahead: Ahead | None = None

    def pass_over(
        self,
        windows: Sequence[Window],
        first: int,
        history: Sequence[Window],
        record: PoolRecord = NOTHING_KNOWN,
        changes_s: Sequence[float] = (),
    ) -> int:
        """The place of the next window that the detector itself has to see; it has seen the one before `first`.

        history: as `Detector.advance` wants it; changes_s: when the record becomes another.
        """
        courses, before_s = self._courses(), windows[first - 1].start_s
        widths = {one.width_s for one in courses if one is not None}
        if not self._is_calm(before_s) or len(widths) != 1 or record.on_trial:
            self._ahead = None
            return first
        (width_s,) = widths
        ahead = self._ahead
        if ahead is None or not ahead.holds(before_s + width_s, courses):
            ahead = self._ahead = self._look(windows, first, width_s, record, changes_s)
        if ahead is None:
            return first
        begin = round((before_s + width_s - ahead.first_s) / width_s)
        quiet = int(ahead.loud[begin:].argmax())
        self._skip(windows[first : first + quiet], history, ahead, begin)
        return first + quiet

    def _courses(self) -> list[Course | NodeCourse | None]:
        learners, watches = self._detector.learners.values(), self._detector.watches.values()
        return [*(one.course for one in learners), *(one.course for one in watches)]

    def _is_calm(self, at_s: float) -> bool:
        learners, watches = self._detector.learners.values(), self._detector.watches.values()
        return (
            any(learner.course is not None for learner in learners)
            and not any(learner.alarmed or learner.crowded or at_s < learner.surge_until_s for learner in learners)
            and all(learner.is_settled for learner in learners if learner.course is not None)
            and not any(watch.alarmed for watch in watches)
        )

    def _look(
        self, windows: Sequence[Window], first: int, width_s: float, record: PoolRecord, changes_s: Sequence[float]
    ) -> Ahead | None:
        learners, watches = list(self._detector.learners.values()), list(self._detector.watches.values())
        due = [one.built_s + MATURE_REFRESH_S for one in learners]
        due += [one.built_s + (REFRESH_MAX_S if one.course is None else MATURE_REFRESH_S) for one in watches]
        stretch: list[Window] = []
        expected_s = windows[first - 1].start_s + width_s
        for window in windows[first:]:
            if window.start_s >= min(due) or abs(window.start_s - expected_s) > width_s / 2.0:
                break
            stretch.append(window)
            expected_s += width_s
        if len(stretch) < 2:
            return None
        loud = self._unknown(stretch, width_s, record, changes_s)
        told = self._lines(stretch, loud)
        nodes = self._nodes(stretch, loud)
        loud[-1] = True  # Before baselines are renewed it counts what is suspected.
        return Ahead(stretch[0].start_s, width_s, self._courses(), loud, told, nodes)

    def _unknown(
        self, stretch: Sequence[Window], width_s: float, record: PoolRecord, changes_s: Sequence[float]
    ) -> Flags:
        """Ticks at which the load, a prompt bucket or the record is another."""
        learners = self._detector.learners
        limit = min((one.load_limit for each in learners.values() for one in each.baselines.values()), default=math.inf)
        known: dict[str, set[str]] = {}
        for metric, bucket in learners:
            known.setdefault(metric, set()).add(bucket)
        loud = np.array(
            [
                window.load > limit
                or any(not names.issuperset(window.tails.get(of, ())) for of, names in known.items())
                for window in stretch
            ]
        )
        starts = np.array([window.start_s for window in stretch])
        kept_s = 2.0 * self._detector.condition.baseline_s
        changes = [*changes_s, *(move.at_s for moves in record.moves.values() for move in moves)]
        changes += [end_s + kept_s for learner in learners.values() for _, end_s in learner.own]
        spans = [(at_s, at_s) for at_s in changes] + list(record.changing)
        for begin_s, end_s in spans:
            loud |= (starts > begin_s - width_s) & (starts < end_s + width_s)
        return loud

    def _lines(self, stretch: Sequence[Window], loud: Flags) -> list[tuple[Line[Wanted], Floats, Floats]]:
        stacks: dict[str, Stack] = {}
        scored: dict[int, Mapping[str, ScoredEach]] = {}
        told = []
        for learner in self._detector.learners.values():
            if learner.course is None:
                continue
            usual, threshold = learner.course.yardstick, learner.log_threshold(self._detector.pools)
            if learner.metric not in stacks:
                stacks[learner.metric] = Stack.of(stretch, learner.metric)
            if id(usual) not in scored:
                scored[id(usual)] = usual.score_each(stacks[learner.metric])
            for line in learner.course.lines.values():
                values, sampling = line.wanted.mean.of_each(scored[id(usual)], len(stretch))
                told.append((line, values, sampling))
                self._hear(line, values, sampling, threshold, loud)
        return told

    def _nodes(self, stretch: Sequence[Window], loud: Flags) -> list[tuple[NodeCourse, Grid]]:
        found = []
        for watch in self._detector.watches.values():
            if watch.course is None:
                continue
            usual = watch.course.usual
            grid = usual.grid([window.nodes.get(watch.metric) for window in stretch])
            values, sampling = usual.lines(grid)
            threshold = watch.log_threshold(self._detector.pools)
            found.append((watch.course, grid))
            for row, node in enumerate(usual.nodes):
                if node in watch.course.lines:
                    self._hear(watch.course.lines[node], values[row], sampling[row], threshold, loud)
        return found

    def _hear(self, line: Line[Any], values: Floats, sampling: Floats, threshold: float, loud: Flags) -> None:
        ends = line.sums.ticks + 1 + np.arange(loud.size)
        evidence = line.evidence(line.sums.extended(values, sampling), ends, CLEAR_HINT)
        loud |= evidence >= threshold - LOUD
        self.nearest = max(self.nearest, float(evidence.max()) - threshold)

    def _skip(self, quiet: Sequence[Window], history: Sequence[Window], ahead: Ahead, begin: int) -> None:
        if not quiet:
            return
        detector, end = self._detector, begin + len(quiet)
        for line, values, sampling in ahead.told:
            line.sums = line.sums.extended(values[begin:end], sampling[begin:end])
        for course, grid in ahead.nodes:
            course.extend(Grid(grid.counts[..., begin:end], grid.means[..., begin:end]))
        work = detector.workshop(history)
        for learner in detector.learners.values():
            if learner.course is not None:
                learner.streams.clear()
                continue
            for window in quiet:
                learner.judge(window, history, detector.pools, work.build, work.survey)
        for watch in detector.watches.values():
            for window in quiet:
                watch.hear(window)
        detector.last_start_s = quiet[-1].start_s
