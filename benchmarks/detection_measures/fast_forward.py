"""The product's detector over weeks: what `Detector.advance` raises tick by tick, at a twentieth of the price.

A course remembers nothing but its series, so that what it will show at each tick of the coming hour can be computed at
once. Where that comes nowhere near an alarm the ticks are passed over (prompt buckets that are judged by exceedances
take each); where it does, where the load is new, or something is in alarm, the detector itself takes tick after tick.
A test holds the two equal.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.worlds import BUCKETS, Chunk
from controlplane.alerts.regressions.course import Line, Wanted
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.regressions.learner import MATURE_REFRESH_S
from controlplane.alerts.regressions.node_course import Grid, NodeCourse
from controlplane.alerts.regressions.stacked_tails import Stack
from controlplane.alerts.regressions.yardstick import ScoredEach
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.load import LoadMeter
from controlplane.alerts.windows.material import Tail
from controlplane.alerts.windows.node_levels import NodeLevels
from controlplane.alerts.windows.pool_record import NOTHING_KNOWN, PoolRecord
from controlplane.contract.metrics import WINDOW_S

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

WARM_S = 6 * 3600.0
REST_S = 1800.0
"""After an alarm another within this time is the same."""
CLEAR_HINT = 3.0
"""Without so clear a sign of a rise a line is far from an alarm."""
LOUD = 2.0
"""So far under its threshold (in nats) a line's evidence is taken seriously."""


def windows_of(chunk: Chunk, metric: str, meter: LoadMeter) -> list[Window]:
    """The chunk as the product reads it."""
    begin, counts = chunk.used(metric)
    nodes = _node_levels(chunk, metric)
    cell = chunk.tick * len(BUCKETS) + chunk.bucket
    tokens = np.bincount(cell, weights=chunk.prompts, minlength=chunk.arrived.size * len(BUCKETS))
    tokens = tokens.reshape(-1, len(BUCKETS))
    tails = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
    low, high = (counts > 0).argmax(axis=-1), counts.shape[-1] - (counts[..., ::-1] > 0).argmax(axis=-1)
    found = []
    for tick, arrived in enumerate(chunk.arrived):
        start_s = chunk.start_s + tick * WINDOW_S
        held = {}
        for place, name in enumerate(BUCKETS):
            count = int(tails[tick, place, 0])
            if count:
                first = int(low[tick, place])
                held[name] = Tail(begin + first, tails[tick, place, first : high[tick, place]].copy(), count)
        load = meter.push(start_s, {"n": int(arrived)}, {})
        levels = {metric: nodes[tick]} if tick in nodes else {}
        told = {name: float(tokens[tick, place]) for place, name in enumerate(BUCKETS) if tokens[tick, place]}
        found.append(Window(start_s, load, {metric: held} if held else {}, levels, told))
    return found


def _node_levels(chunk: Chunk, metric: str) -> dict[int, NodeLevels]:
    """By tick."""
    places = chunk.places[metric]
    if not places.size:
        return {}
    low, width, nodes = int(places.min()), int(np.ptp(places)) + 1, int(chunk.node.max()) + 1
    cell = chunk.node * len(BUCKETS) + chunk.bucket
    names = [(f"n{node}", bucket) for node in range(nodes) for bucket in BUCKETS]
    order = np.argsort(chunk.tick, kind="stable")
    ends = np.searchsorted(chunk.tick[order], np.arange(chunk.arrived.size + 1))
    found = {}
    for tick, (begin, end) in enumerate(itertools.pairwise(ends)):
        mine = order[begin:end]
        if mine.size:
            flat = np.bincount(cell[mine] * width + places[mine] - low, minlength=len(names) * width)
            counts = flat.reshape(len(names), width)
            some = np.flatnonzero(counts.any(axis=1))
            found[tick] = NodeLevels.of([names[place] for place in some], low, counts[some])
    return found


@dataclass(frozen=True)
class Ahead:
    """A stretch of ticks from `first_s` until baselines are renewed.

    loud: bool[ticks], which the detector has to see itself; told: of each line of the courses, what it will be told
    (mean and variance, float64[ticks] each); nodes: of each course of nodes what it will be.
    """

    first_s: float
    loud: Flags
    told: Sequence[tuple[Line[Wanted], Floats, Floats]]
    nodes: Sequence[tuple[NodeCourse, Grid]]


class Replay:
    """Windows in order; `raised`: the seconds at which the metric came into alarm, judging from `WARM_S` on.

    nearest: how near a line came to an alarm, in nats (0: it was one), among those that look ahead of time.
    records: what the database says from so many seconds on; first_only: no further than the first alarm.
    """

    def __init__(
        self,
        detector: Detector,
        metric: str,
        records: Sequence[tuple[float, PoolRecord]] = (),
        *,
        first_only: bool = False,
    ) -> None:
        self.raised: list[float] = []
        self.nearest = -math.inf
        self._records, self._first_only = records, first_only
        self._detector, self._metric = detector, metric
        self._history: list[Window] = []
        self._was_alarmed, self._quiet_until_s = False, 0.0
        self._ahead: Ahead | None = None

    def take(self, windows: Sequence[Window]) -> None:
        """More of them."""
        place = len(self._history)
        self._history += windows
        while place < len(self._history) and not self.is_done:
            if self._history[place].start_s < WARM_S:
                place += 1
                continue
            self._advance(place)
            place = self._pass_over(place + 1)
        spare = max(0, len(self._history) - round((WARM_S + 3600.0) / WINDOW_S))
        del self._history[:spare]

    @property
    def is_done(self) -> bool:
        return self._first_only and bool(self.raised)

    def _advance(self, place: int) -> None:
        window = self._history[place]
        record = next((one for since_s, one in reversed(self._records) if since_s <= window.start_s), NOTHING_KNOWN)
        self._detector.advance(window, self._history, record)
        is_alarmed = bool(self._detector.alarmed(self._metric) or self._detector.apart(self._metric))
        if is_alarmed and not self._was_alarmed and window.start_s >= self._quiet_until_s:
            self.raised.append(window.start_s + WINDOW_S)
            self._quiet_until_s = window.start_s + REST_S
        self._was_alarmed = is_alarmed

    def _pass_over(self, first: int) -> int:
        """The next window that the detector itself has to see."""
        learners, watches = list(self._detector.learners.values()), list(self._detector.watches.values())
        before_s = self._history[first - 1].start_s
        is_calm = any(learner.course is not None for learner in learners) and not any(
            learner.alarmed or learner.crowded or before_s < learner.surge_until_s for learner in learners
        )
        is_calm = is_calm and not any(watch.alarmed for watch in watches)
        if not is_calm:
            self._ahead = None
            return first
        due_s = min(one.built_s for one in (*learners, *watches)) + MATURE_REFRESH_S
        if self._ahead is None or before_s + WINDOW_S >= self._ahead.first_s + self._ahead.loud.size * WINDOW_S:
            stretch = [window for window in self._history[first:] if window.start_s < due_s]
            self._ahead = self._look_ahead(stretch) if len(stretch) > 1 else None
        if self._ahead is None:
            return first
        begin = round((before_s + WINDOW_S - self._ahead.first_s) / WINDOW_S)
        quiet = int(self._ahead.loud[begin:].argmax())
        self._skip(self._history[first : first + quiet], self._ahead, begin)
        return first + quiet

    def _look_ahead(self, stretch: Sequence[Window]) -> Ahead:
        learners = list(self._detector.learners.values())
        known = {learner.bucket for learner in learners}
        limit = min(baseline.load_limit for one in learners for baseline in one.baselines.values())
        loud = np.array(
            [window.load > limit or not known.issuperset(window.tails.get(self._metric, {})) for window in stretch]
        )
        stack, scored, told = Stack.of(stretch, self._metric), dict[int, Mapping[str, ScoredEach]](), []
        for learner in learners:
            if learner.course is None:
                continue
            usual, threshold = learner.course.yardstick, learner.log_threshold(self._detector.pools)
            if id(usual) not in scored:
                scored[id(usual)] = usual.score_each(stack)
            each = scored[id(usual)]
            for line in learner.course.lines.values():
                values, sampling = line.wanted.mean.of_each(each, len(stretch))
                told.append((line, values, sampling))
                ends = line.sums.ticks + 1 + np.arange(len(stretch))
                evidence = line.evidence(line.sums.extended(values, sampling), ends, CLEAR_HINT)
                loud |= evidence >= threshold - LOUD
                self.nearest = max(self.nearest, float(evidence.max()) - threshold)
        nodes = []
        for watch in self._detector.watches.values():
            if watch.course is None:
                continue
            grid = watch.course.usual.grid([window.nodes.get(self._metric) for window in stretch])
            values, sampling = watch.course.usual.lines(grid)
            threshold = watch.log_threshold(self._detector.pools)
            nodes.append((watch.course, grid))
            for row, node in enumerate(watch.course.usual.nodes):
                if node in watch.course.lines:
                    line = watch.course.lines[node]
                    ends = line.sums.ticks + 1 + np.arange(len(stretch))
                    extended = line.sums.extended(values[row], sampling[row])
                    evidence = line.evidence(extended, ends, CLEAR_HINT)
                    loud |= evidence >= threshold - LOUD
                    self.nearest = max(self.nearest, float(evidence.max()) - threshold)
        for since_s, _ in self._records:
            loud |= np.array([since_s <= window.start_s < since_s + WINDOW_S for window in stretch])
        loud[-1] = True  # Before baselines are renewed it counts what is suspected.
        return Ahead(stretch[0].start_s, loud, told, nodes)

    def _skip(self, quiet: Sequence[Window], ahead: Ahead, begin: int) -> None:
        if not quiet:
            return
        end = begin + len(quiet)
        for line, values, sampling in ahead.told:
            line.sums = line.sums.extended(values[begin:end], sampling[begin:end])
        for course, grid in ahead.nodes:
            course.extend(Grid(grid.counts[..., begin:end], grid.means[..., begin:end]))
        work = self._detector.workshop(self._history)
        for learner in self._detector.learners.values():
            if learner.course is not None:
                learner.streams.clear()
                continue
            for window in quiet:
                learner.judge(window, self._history, self._detector.pools, work.build, work.survey)
        self._detector.last_start_s = quiet[-1].start_s


def watch(
    detector: Detector,
    metric: str,
    chunks: Iterable[Chunk],
    records: Sequence[tuple[float, PoolRecord]] = (),
    *,
    first_only: bool = False,
) -> Replay:
    """The chunks, one after the other."""
    replay, meter = Replay(detector, metric, records, first_only=first_only), LoadMeter()
    for chunk in chunks:
        replay.take(windows_of(chunk, metric, meter))
        if replay.is_done:
            break
    return replay
