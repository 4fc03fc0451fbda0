"""All streams of one regression rule on one pool: who is in alarm.

Guarantee: each stream (a metric's requests of one prompt bucket, or of all) learns and is judged by itself, see
`learner`. Streams that want a baseline from the same windows share the work of building it, nothing else.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.regressions.baseline import FLEET, Baseline, build_each
from controlplane.alerts.regressions.course import Course, Past, course
from controlplane.alerts.regressions.learner import MIDDLE, Learner, within
from controlplane.alerts.regressions.node_watch import NodeWatch
from controlplane.alerts.regressions.stacked_tails import Stack
from controlplane.alerts.regressions.yardstick import yardstick
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.moved_windows import moved
from controlplane.alerts.windows.node_levels import BY_NODE
from controlplane.alerts.windows.pool_record import NOTHING_KNOWN, Move, PoolRecord
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.evidence.e_detector import Stream

Flags = NDArray[np.bool_]

QUIET_S = 600.0
"""After so long without traffic the evidence is stale: a later slowdown has to be shown anew."""
NEWS_S = 600.0
"""A change that is older was news to somebody else: to the rule before it was edited, say."""
FORM = 2
"""Of the stored state. Of an older one the evidence is taken over, stream by stream; of a newer one nothing."""


class Key(NamedTuple):
    """One stream: a metric (short name), a quantile, and a prompt bucket or `FLEET`."""

    metric: str
    q: float
    bucket: str

    def __str__(self) -> str:
        return f"{self.metric}|{self.q:g}|{self.bucket}"

    @classmethod
    def of(cls, text: str) -> "Key":
        metric, q, bucket = text.split("|", 2)
        return cls(metric, float(q), bucket)


@dataclass
class Detector:
    """Judges windows in order. `learners` by metric and prompt bucket, and `watches` by metric of its nodes, hold the
    whole memory of the evidence."""

    condition: RegressionCondition
    pools: int = 1
    learners: dict[tuple[str, str], Learner] = field(default_factory=dict)
    watches: dict[str, NodeWatch] = field(default_factory=dict)
    last_start_s: float = -math.inf
    accepted: dict[str, int] = field(default_factory=dict)
    """Metrics whose alarm the last window ended because a rollout was accepted, with the rollout."""
    moved: list[tuple[str, Move]] = field(default_factory=list)
    """Metrics whose baseline has just moved or begun anew; whoever tells of it empties the list."""

    def __post_init__(self) -> None:
        for metric in self.condition.metrics:
            self._learner(metric, FLEET)
            if metric in BY_NODE:
                self.watches[metric] = NodeWatch(metric, self.condition)

    def state(self) -> dict[str, Any]:
        return {
            "form": FORM,
            "learners": [[*key, learner.dump()] for key, learner in sorted(self.learners.items())],
            "nodes": {metric: watch.dump() for metric, watch in self.watches.items()},
            "last_start_s": self.last_start_s if math.isfinite(self.last_start_s) else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        if state.get("form", 1) > FORM:
            return
        for metric, bucket, stored in state.get("learners", []):
            if metric in self.condition.metrics:
                self._learner(metric, bucket).load(stored)
        for metric, stored in state.get("nodes", {}).items():
            if metric in self.watches:
                self.watches[metric].load(stored)
        for text, stream in state.get("streams", {}).items():  # As it was before streams learned by themselves.
            key = Key.of(text)
            self._learner(key.metric, key.bucket).streams[key.q] = Stream.load(stream)
        last_s = state.get("last_start_s")
        self.last_start_s = -math.inf if last_s is None else float(last_s)

    def _learner(self, metric: str, bucket: str) -> Learner:
        known = self.learners.get((metric, bucket))
        if known is None:
            known = self.learners[metric, bucket] = Learner(metric, bucket, self.condition)
        return known

    def stream(self, key: Key) -> Stream:
        return self.learners[key.metric, key.bucket].streams[key.q]

    def baseline(self, key: Key) -> Baseline | None:
        """What the stream is compared with now."""
        return self.learners[key.metric, key.bucket].baselines.get(key.q)

    def stream_count(self, key: Key) -> int:
        return self.learners[key.metric, key.bucket].stream_count(self.pools)

    def log_threshold(self, key: Key) -> float:
        return self.learners[key.metric, key.bucket].log_threshold(self.pools)

    def alarmed(self, metric: str) -> list[Key]:
        """The metric's streams in alarm, strongest evidence first."""
        keys = [
            Key(metric, q, bucket)
            for (of, bucket), learner in self.learners.items()
            if of == metric
            for q in learner.alarmed
        ]
        return sorted(keys, key=lambda key: (-self.stream(key).slow_above, key))

    def apart(self, metric: str) -> list[str]:
        """The nodes that are in alarm for a metric, strongest evidence first."""
        watch = self.watches.get(metric)
        return [] if watch is None else watch.alarmed

    def advance(self, window: Window, history: Sequence[Window], record: PoolRecord = NOTHING_KNOWN) -> None:
        """Judge one window. `history`: windows in order, `window` among or after them."""
        at_s = window.start_s
        if at_s - self.last_start_s > QUIET_S:
            for learner in self.learners.values():
                learner.forget(at_s)
            for watch in self.watches.values():
                watch.forget(at_s)
        self.last_start_s = at_s
        for metric in self.condition.metrics:
            for bucket in window.tails.get(metric, {}):
                self._learner(metric, bucket)
        self.accepted = {}
        known = {metric: set(self._learner(metric, FLEET).moved_by) for metric in self.condition.metrics}
        work = self.workshop(history)
        for learner in self.learners.values():
            for rollout_id in learner.take_record(record, at_s):
                self.accepted[learner.metric] = rollout_id
            learner.judge(window, history, self.pools, work.build, work.survey)
        for watch in self.watches.values():
            watch.judge(window, history, record, self.pools)
        self.moved += [
            (metric, move)
            for metric, before in known.items()
            for move in self._learner(metric, FLEET).moves
            if move.rollout_id not in before and move.at_s > at_s - NEWS_S
        ]

    def workshop(self, history: Sequence[Window]) -> "Workshop":
        return Workshop(self.condition, history)


class Workshop:
    """Baselines built while one window is judged: those of the same windows once, whoever asks."""

    def __init__(self, condition: RegressionCondition, history: Sequence[Window]) -> None:
        self._condition = condition
        self._history = history
        self._built: dict[tuple[object, ...], dict[float, Baseline]] = {}
        self._past: dict[tuple[object, ...], Past] = {}
        self._stacks: dict[tuple[str, float], Stack] = {}

    def build(self, learner: Learner, end_s: float, least: int) -> dict[float, Baseline]:
        """The baselines of a learner's metric by quantile, of all prompt buckets together and each."""
        key = (learner.metric, end_s, least, learner.closed, learner.moves)
        if key not in self._built:
            self._built[key] = self._build(learner, end_s, least)
        return self._built[key]

    def survey(self, learner: Learner, end_s: float, at_s: float) -> Course | None:
        """The course of a learner's stream up to `at_s`; what is usual is learnt from what was before `end_s`."""
        key = (learner.metric, end_s, at_s, learner.closed, learner.moves)
        if key not in self._past:
            stack = self._stack(learner.metric, end_s)
            stack = stack.among(np.array([window.start_s < at_s for window in stack.windows], dtype=bool))
            if learner.moves:
                stack = Stack.of(moved(stack.windows, learner.metric, MIDDLE, learner.moves), learner.metric)
            usual = stack.among(_usual(stack, learner, end_s))
            self._past[key] = Past.of(yardstick(usual), stack, end_s)
        return course(
            self._past[key],
            learner.bucket,
            lambda starts: within(starts, learner.closed),
            learner.noise.by_line,
            lambda starts: within(starts, learner.mixed),
        )

    def _stack(self, metric: str, end_s: float) -> Stack:
        """What a baseline that ends there begins with, and all after it."""
        start_s = end_s - self._condition.baseline_s
        if (metric, start_s) not in self._stacks:
            windows = [window for window in self._history if start_s <= window.start_s]
            self._stacks[metric, start_s] = Stack.of(windows, metric)
        return self._stacks[metric, start_s]

    def _build(self, learner: Learner, end_s: float, least: int) -> dict[float, Baseline]:
        stack = self._stack(learner.metric, end_s)
        stack = stack.among(_usual(stack, learner, end_s))
        if not learner.moves:
            return build_each(stack, learner.edges, least, gross=learner.gross)
        found = {}
        for q in learner.edges:
            before = moved(stack.windows, learner.metric, q, learner.moves)
            settled_s = max(end_s - learner.moves[-1].at_s, 0.0)
            found.update(
                build_each(Stack.of(before, learner.metric), [q], least, settled_s=settled_s, gross=learner.gross)
            )
        return found


def _usual(stack: Stack, learner: Learner, end_s: float) -> Flags:
    """Of which windows a learner takes what is normal, up to a time."""
    starts = np.array([window.start_s for window in stack.windows])
    return np.asarray((starts < end_s) & ~within(starts, learner.closed))
