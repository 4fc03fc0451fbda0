"""One stream of a regression rule: a metric's requests of one prompt bucket, or of all, against their own baseline.

Guarantees: a baseline holds only windows before the tick it judges, with a gap between, none of a span in which this
stream was in alarm, and none since its evidence began to gather; while the stream is in alarm it stays as it was. What
another stream says changes nothing here: neither the baseline, nor the threshold, nor what is judged.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.regressions.baseline import FLEET, MIN_BUCKET_COUNT, Baseline
from controlplane.alerts.regressions.course import MATURE_S, TAIL, Course, Shown, strongest
from controlplane.alerts.regressions.noise_memory import NoiseMemory
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.pool_record import Move, PoolRecord, Span
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.histogram import SCALE
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.e_detector import RECOVERED, Exceedances, Stream, observe, tally

GUARD_SHARE, GUARD_MIN_S, GUARD_MAX_S = 1 / 6, 40.0, 300.0
REFRESH_SHARE, REFRESH_MIN_S, REFRESH_MAX_S = 1 / 20, 5.0, 300.0
MATURE_REFRESH_S = 3600.0
SUSPICION = 1 / 4
"""From this part of the alarm's log threshold on, the suspected span is kept out of the baseline."""
LINE_SUSPICION = 1 / 2
"""The same of a course, which looks for the likeliest of many changes at each tick."""
SURGE_REST_S = 60.0
"""A load beyond the baseline counts as lasting for so long after it: the queue it left is not the engine's fault."""
SURGE_LEARN_S = 600.0
"""A load that stays so long is the new normal: the baseline takes it in, so that it can be judged in full again."""
SURGE_MARGIN_BUCKETS = round(math.log2(3.0) * 2**SCALE)
"""Beyond the loads of the baseline only growth of three times and more counts: no crowd excuses so much."""
MIDDLE = 0.5
"""Where exceedances are counted besides the rule's quantiles: requests of one bucket differ so much that all may be
twice as slow before many pass the edge of the slowest twentieth of a young baseline; that of half of them tells."""
FLEET_PART, BUCKETS_PART = 0.5, 0.4
"""Of the promise, for all requests together and for the prompt buckets; the rest is for nodes (`node_watch`)."""
YOUNG_SHARE = 1 / 2
"""A metric with this part of the wanted requests is judged for gross growth already: see `Learner._begin`."""

Build = Callable[["Learner", float, int], Mapping[float, Baseline]]
"""The baselines by quantile of a learner's metric, from windows before a time, of so many values at least."""
Survey = Callable[["Learner", float, float], Course | None]
"""The course of a learner's stream up to a time (the last), as usual as it was before another."""


@dataclass
class Learner:
    """`streams` and `crowded` (the evidence gathered beyond the known loads) by quantile are its memory, with `own`,
    the spans of its past alarms, how its lines wandered in earlier days (`noise`), since when evidence counts, and
    until when a load that was new and stayed leaves it to exceedances at each load (`settled_s`); baselines and course
    are rebuilt at need.

    A baseline that is old enough has a course, which then says what the streams show: what it says of all requests is
    the lowest quantile's, what it says of the tail the highest's. A younger one is judged by exceedances alone.
    """

    metric: str
    bucket: str
    condition: RegressionCondition
    streams: dict[float, Stream] = field(default_factory=dict)
    crowded: dict[float, Stream] = field(default_factory=dict)
    own: list[Span] = field(default_factory=list)
    surge_since_s: float = 0.0
    surge_until_s: float = 0.0
    moved_by: list[int] = field(default_factory=list)
    counts_since_s: float = math.inf
    settled_s: float = -math.inf
    noise: NoiseMemory = field(default_factory=NoiseMemory)
    course: Course | None = None
    baselines: dict[float, Baseline] = field(default_factory=dict)
    closed: tuple[Span, ...] = ()
    mixed: tuple[Span, ...] = ()
    moves: tuple[Move, ...] = ()
    built_s: float = -math.inf
    built_for: tuple[tuple[Span, ...], tuple[Move, ...]] = ((), ())

    @property
    def edges(self) -> tuple[float, ...]:
        """The quantiles at whose edges exceedances are counted."""
        return tuple(dict.fromkeys((MIDDLE, *self.condition.q)))

    @property
    def gross(self) -> frozenset[float]:
        """Those of them that the rule does not name: only growth to twice counts there."""
        return frozenset(self.edges) - frozenset(self.condition.q)

    @property
    def alarmed(self) -> list[float]:
        """The quantiles in alarm."""
        return [q for q, stream in self.streams.items() if stream.alarmed]

    def log_threshold(self, pools: int) -> float:
        """ln(A + 1), A = wanted ticks between false alarms over this stream's part of them.

        Half of what is promised is spent on all requests together, most of the other half on the prompt buckets.
        """
        share = FLEET_PART if self.bucket == FLEET else BUCKETS_PART / max(1, self._buckets)
        apart = max(1, pools * len(self.condition.metrics) * self._watches)
        return math.log1p(self.condition.false_alarm_every_s / WINDOW_S * apart / (share if self._buckets else 1.0))

    def stream_count(self, pools: int) -> int:
        """Over all pools, metrics and quantiles of the rule, supposing that all have as many prompt buckets as this."""
        return max(1, pools * len(self.condition.metrics) * self._watches * (1 + self._buckets))

    @property
    def _watches(self) -> int:
        """How many ways there are to raise an alarm: a course has as many as the rule has quantiles."""
        return len(self.edges if self.course is None else self.condition.q)

    @property
    def _buckets(self) -> int:
        return max((len(baseline.phi) - 1 for baseline in self.baselines.values()), default=0)

    def forget(self, at_s: float) -> None:
        """Drop the evidence: what it spoke of is over, or accepted."""
        onset = [stream.onset_s for stream in self.streams.values() if stream.alarmed and stream.onset_s is not None]
        if onset:
            self.own.append((min(onset), at_s))
        self.streams.clear()
        self.crowded.clear()
        self.counts_since_s = at_s

    def take_record(self, record: PoolRecord, at_s: float) -> list[int]:
        """Take in what the database says; returns the accepted rollouts that ended this stream's alarm."""
        self.own = [span for span in self.own if span[1] > at_s - 2.0 * self.condition.baseline_s]
        spans = record.closed(self.metric)
        if self.bucket != FLEET and not self.baselines:
            # An alert about other prompts is no reason to know nothing of these.
            spans = tuple(span for span in spans if span[1] < math.inf)
        self.closed = (*spans, *self.own)
        self.moves = tuple(move for move in record.moves.get(self.metric, ()) if move.at_s <= at_s)
        # Its baseline has moved to what was accepted, and not all nodes have: what they serve has a longer tail.
        slower = [move.at_s for move in self.moves if move.accepts_slower]
        self.mixed = tuple(span for span in record.changing if any(inside(one_s, [span]) for one_s in slower))
        ended = []
        for move in self.moves:
            if move.rollout_id in self.moved_by:
                continue
            self.moved_by.append(move.rollout_id)
            if self.alarmed and move.ends_alarm:
                ended.append(move.rollout_id)
            if move.ends_alarm if self.alarmed else move.accepts_slower:
                self.forget(move.at_s)
        known = {move.rollout_id for move in self.moves}
        self.moved_by = [number for number in self.moved_by if number in known]
        return ended

    def judge(self, window: Window, history: Sequence[Window], pools: int, build: Build, survey: Survey) -> None:
        """Take in one window: renew the baseline where it is due, then weigh the window against it."""
        at_s = window.start_s
        self.counts_since_s = min(self.counts_since_s, at_s)
        if not self.baselines or not self._holds_through_surge(at_s) or self._changed():
            self._refresh(at_s, history, pools, build, survey)
        if not self.baselines:
            return
        if window.load > max(baseline.load_limit for baseline in self.baselines.values()):
            if at_s >= self.surge_until_s:
                self.surge_since_s = at_s
            self.surge_until_s = at_s + SURGE_REST_S
        is_crowded = at_s < self.surge_until_s
        if not is_crowded:
            self.crowded.clear()
        was_alarmed = {q: self.streams[q].onset_s for q in self.alarmed}
        threshold = self.log_threshold(pools)
        for q in self.baselines:
            self._observe(window, q, is_crowded, threshold)
        if self.course is not None:
            self.course.take(window, judged=not is_crowded, mixed=inside(at_s, self.mixed))
            if not is_crowded:
                self._look(self.course, window, threshold)
        if was_alarmed and not self.alarmed:
            onset = min((since for since in was_alarmed.values() if since is not None), default=at_s)
            self.own.append((onset, at_s))

    def _observe(self, window: Window, q: float, is_crowded: bool, log_threshold: float) -> None:
        baseline, stream = self.baselines[q], self.streams.get(q)
        if stream is None:
            stream = self.streams[q] = Stream()
        # In alarm the usual edge holds whatever the load: who is fast enough in a crowd has recovered.
        beyond = is_crowded and not stream.alarmed
        if self.course is not None and not beyond and (stream.line or not stream.alarmed):
            return
        cells = self._cells(window, baseline, SURGE_MARGIN_BUCKETS if beyond else 0)
        if not cells:
            return
        phi = baseline.phi[self.bucket]
        if not beyond:
            observe(stream, window.start_s, cells, phi, log_threshold)
            return
        apart = self.crowded.setdefault(q, Stream())
        observe(apart, window.start_s, cells, phi, log_threshold)
        if apart.alarmed:
            self.streams[q] = self.crowded.pop(q)

    def _look(self, course: Course, window: Window, log_threshold: float) -> None:
        """Take over what the course shows."""
        found = self._shown(course)
        for q, stream in list(self.streams.items()):
            shown = found.get(q)
            if stream.alarmed:
                continue
            if shown is None:
                if not stream.is_blank:
                    self.streams[q] = Stream()
                continue
            self.streams[q] = Stream(line=shown.line, rise=shown.rise, shown=shown.log_evidence, onset_s=shown.onset_s)
            self.streams[q].gain[0], self.streams[q].since_s[0] = max(shown.gain, 0.0), shown.onset_s
            self.streams[q].alarmed = shown.log_evidence >= log_threshold
        for q, stream in self.streams.items():
            if stream.alarmed and stream.line:
                tally(stream, self._cells(window, self.baselines[q], 0))
                stream.recovery = course.back(stream.line, stream.onset_s or window.start_s, stream.rise)
                if stream.recovery >= RECOVERED:
                    self.streams[q] = Stream()

    def _shown(self, course: Course) -> dict[float, Shown]:
        """The strongest line by quantile. Each quantile's lines share its part of the promised rate."""
        shown_now = course.shown(max(self.counts_since_s, self.settled_s))
        if not any(shown_now.values()):
            return {}
        lines: dict[float, list[Shown | None]] = {}
        for name, one in shown_now.items():
            lines.setdefault(max(self.condition.q) if name == TAIL else min(self.condition.q), []).append(one)
        found = {q: strongest(shown) for q, shown in lines.items()}
        return {q: shown for q, shown in found.items() if shown is not None}

    def _cells(self, window: Window, baseline: Baseline, margin: int) -> list[Exceedances]:
        cells = []
        for bucket, tail in window.tails.get(self.metric, {}).items():
            if self.bucket not in (FLEET, bucket) or not tail.count:
                continue
            load = min(window.load, baseline.load_limit)
            null = baseline.null_share(bucket, load, self.condition.tolerance)
            if null is not None:
                cells.append(Exceedances(tail.count, tail.above(baseline.buckets[bucket].edge + margin), null))
        return cells

    def _holds_through_surge(self, at_s: float) -> bool:
        """Whether the baseline stays as it is: what a surge hides from judgement must not pass for normal meanwhile."""
        return at_s < self.surge_until_s and at_s - self.surge_since_s < SURGE_LEARN_S

    @property
    def is_settled(self) -> bool:
        """Whether its baseline is made of what is known: an alarm that has just ended is to be left out of it."""
        return not self._changed() and all(span in self.closed for span in self.own)

    def _changed(self) -> bool:
        return self.built_for != (self.closed, self.moves)

    def _refresh(self, at_s: float, history: Sequence[Window], pools: int, build: Build, survey: Survey) -> None:
        first_s = max(history[0].start_s if history else at_s, self._restarted_s)
        span_s = min(at_s - first_s, self.condition.baseline_s)
        due_s = min(max(span_s * REFRESH_SHARE, REFRESH_MIN_S), REFRESH_MAX_S)
        learns_surge = at_s < self.surge_until_s and at_s - self.surge_since_s >= SURGE_LEARN_S
        if learns_surge:
            self.settled_s = at_s + MATURE_S
        elif self._is_mature or (span_s >= self.condition.baseline_s and not self.baselines):
            due_s = MATURE_REFRESH_S
        if at_s - self.built_s < due_s and not self._changed():
            return
        alarmed, has_moved = self.alarmed, self.moves != self.built_for[1]
        if alarmed and self.baselines and not has_moved:
            return
        is_open = [begin for begin, end in self.closed if end == math.inf]
        end_s = at_s - min(max(span_s * GUARD_SHARE, GUARD_MIN_S), GUARD_MAX_S)
        end_s = min([end_s, *self._suspected(pools), *is_open])
        self.built_s, self.built_for = at_s, (self.closed, self.moves)
        wanted = self.condition.min_baseline_count
        built = build(self, end_s, math.ceil(wanted * YOUNG_SHARE) if alarmed else wanted)
        built = {q: baseline for q, baseline in built.items() if self.bucket in baseline.phi}
        if built or (has_moved and any(move.shifts is None for move in self.moves)):
            self.baselines = built
            if self.noise.until_s - self.condition.baseline_s < self._restarted_s:
                self.noise = NoiseMemory()
            self.course = survey(self, end_s, at_s) if self._is_mature and at_s >= self.settled_s else None
            if self.course is not None and span_s >= self.condition.baseline_s:
                seen = {name: line.seen for name, line in self.course.lines.items()}
                self.noise.add(seen, end_s - self.condition.baseline_s, end_s)
        if not self.baselines and not alarmed and span_s < MATURE_S:
            self._begin(at_s, history, pools, build)

    def _begin(self, at_s: float, history: Sequence[Window], pools: int, build: Build) -> None:
        """While there are too few requests for a baseline: judge by the first half of what one wants.

        Growth among the very requests that a first baseline is waiting for would otherwise become what is normal. The
        windows after that half are weighed against it, one by one; where they raise an alarm it stands, and the
        baseline stays what came before.
        """
        wanted = math.ceil(self.condition.min_baseline_count * YOUNG_SHARE)
        known = [window for window in history if window.start_s < at_s and not self._is_closed(window)]
        first = self._holding(known, wanted)
        if not first:
            return
        built = build(self, known[first - 1].start_s + WINDOW_S, wanted)
        self.baselines = {q: baseline for q, baseline in built.items() if self.bucket in baseline.phi}
        for later in known[first:] if self.baselines else ():
            is_crowded = later.load > max(baseline.load_limit for baseline in self.baselines.values())
            for q in self.baselines:
                self._observe(later, q, is_crowded, self.log_threshold(pools))
            if self.alarmed:
                return
        self.baselines = {}
        self.streams.clear()
        self.crowded.clear()

    def _holding(self, windows: Sequence[Window], wanted: int) -> int:
        """How many of the windows hold so many of the metric's values, and enough of the stream's; 0 if all do not."""
        counted = mine = 0
        for place, window in enumerate(windows):
            for bucket, tail in window.tails.get(self.metric, {}).items():
                counted += tail.count
                mine += tail.count if self.bucket in (FLEET, bucket) else 0
            if counted >= wanted and mine >= MIN_BUCKET_COUNT:
                return place + 1
        return 0

    def _is_closed(self, window: Window) -> bool:
        return window.start_s < self._restarted_s or inside(window.start_s, self.closed)

    @property
    def _is_mature(self) -> bool:
        return any(one.end_s - one.start_s >= MATURE_S for one in self.baselines.values())

    @property
    def _restarted_s(self) -> float:
        """Since when anything is known of what is normal."""
        if not self.moves:
            return -math.inf
        return max((move.at_s for move in self.moves if move.shifts is None), default=-math.inf)

    def _suspected(self, pools: int) -> list[float]:
        threshold = self.log_threshold(pools)
        found = [
            stream.suspected_from(threshold * (LINE_SUSPICION if stream.line else SUSPICION))
            for stream in (*self.streams.values(), *self.crowded.values())
        ]
        return [onset for onset in found if onset is not None]

    def dump(self) -> dict[str, Any]:
        return {
            "streams": {f"{q:g}": stream.dump() for q, stream in self.streams.items()},
            "crowded": {f"{q:g}": stream.dump() for q, stream in self.crowded.items()},
            "own": [list(span) for span in self.own],
            "surge_since_s": self.surge_since_s,
            "surge_until_s": self.surge_until_s,
            "moved_by": self.moved_by,
            "counts_since_s": _finite(self.counts_since_s),
            "settled_s": _finite(self.settled_s),
            "noise": self.noise.dump(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.streams = {float(q): Stream.load(value) for q, value in state.get("streams", {}).items()}
        self.crowded = {float(q): Stream.load(value) for q, value in state.get("crowded", {}).items()}
        self.own = [(float(begin), float(end)) for begin, end in state.get("own", [])]
        self.surge_since_s = float(state.get("surge_since_s", 0.0))
        self.surge_until_s = float(state.get("surge_until_s", 0.0))
        self.moved_by = [int(number) for number in state.get("moved_by", [])]
        since_s, settled_s = state.get("counts_since_s"), state.get("settled_s")
        self.counts_since_s = math.inf if since_s is None else float(since_s)
        self.settled_s = -math.inf if settled_s is None else float(settled_s)
        self.noise = NoiseMemory.load(state.get("noise", {}))


def _finite(at_s: float) -> float | None:
    return at_s if math.isfinite(at_s) else None


def inside(at_s: float, spans: Sequence[Span]) -> bool:
    return any(begin <= at_s < end for begin, end in spans)


def within(starts_s: NDArray[np.float64], spans: Sequence[Span]) -> NDArray[np.bool_]:
    """As `inside`, of each."""
    found = np.zeros(starts_s.shape, dtype=bool)
    for begin, end in spans:
        found |= (starts_s >= begin) & (starts_s < end)
    return found
