"""A metric of a pool node by node, each against the others: which of them is in alarm.

Guarantees: a node alarms where its line (`node_course`) has risen beyond its share of the promise, it is slower than it
was itself in the hour before by at least half of that, and it does not have to serve a larger part of the requests.
What an accepted or a running change of configuration does to a node is not judged: nodes on trial are left to the
rollout's judge, and while a pool goes over wave by wave nothing is compared. While a node is in alarm what is usual
stays as it was, and what was usual before its onset.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controlplane.alerts.regressions.course import MATURE_S, hints_of
from controlplane.alerts.regressions.learner import (
    BUCKETS_PART,
    FLEET_PART,
    GUARD_MAX_S,
    LINE_SUSPICION,
    MATURE_REFRESH_S,
    REFRESH_MAX_S,
    inside,
    within,
)
from controlplane.alerts.regressions.node_course import SOUGHT, Itself, NodeCourse, node_course
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.pool_record import PoolRecord
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.e_detector import RECOVERED, Stream

NODES_PART = 1.0 - FLEET_PART - BUCKETS_PART
"""Of the promise, shared by a metric's nodes."""
OWN_PART = 0.5
"""A node has to be slower than it was by this part of what it is slower than the others."""
MORE_LOAD = 1.25
"""A node that has to serve a part of the requests so many times larger is not judged: it may be as good as ever."""
SETTLE_S = 300.0
"""After its trial a node is judged by what comes so much later: its caches are cold."""
BACK = 2.0 * RECOVERED
"""In nats. It is asked at each tick of a few requests: by chance alone some seconds look as if all were well."""
GONE_S = 600.0
"""A node that has been silent for so long is in no alarm."""


@dataclass
class NodeWatch:
    """`streams` of the nodes that show something and `since_s`, before which what each did is accepted or told, are its
    memory, with `counts_since_s`, the same of all; the course is rebuilt at need. seen_s: when each was last heard of.
    """

    metric: str
    condition: RegressionCondition
    streams: dict[str, Stream] = field(default_factory=dict)
    since_s: dict[str, float] = field(default_factory=dict)
    seen_s: dict[str, float] = field(default_factory=dict)
    counts_since_s: float = -math.inf
    course: NodeCourse | None = None
    built_s: float = -math.inf
    restarted_s: float = -math.inf

    @property
    def alarmed(self) -> list[str]:
        """The nodes in alarm, strongest evidence first."""
        found = [node for node, stream in self.streams.items() if stream.alarmed]
        return sorted(found, key=lambda node: (-self.streams[node].shown, node))

    def log_threshold(self, pools: int) -> float:
        """As `Learner.log_threshold`, of a node's share."""
        nodes = 1 if self.course is None else len(self.course.lines)
        apart = max(1, pools * len(self.condition.metrics) * nodes)
        return math.log1p(self.condition.false_alarm_every_s / WINDOW_S * apart / NODES_PART)

    def itself(self, node: str) -> Itself | None:
        """What a node that shows something did since its onset."""
        course, onset_s = self.course, self.streams[node].onset_s
        if course is None or node not in course.lines or onset_s is None:
            return None
        return course.of_itself(node, onset_s)

    def forget(self, at_s: float) -> None:
        """Drop the evidence: what it spoke of is over."""
        self.streams.clear()
        self.counts_since_s = at_s

    def hear(self, window: Window) -> None:
        """Who was there."""
        for key in window.nodes[self.metric].keys if self.metric in window.nodes else ():
            self.seen_s[key[0]] = window.start_s

    def judge(self, window: Window, history: Sequence[Window], record: PoolRecord, pools: int) -> None:
        """Take in one window: learn anew where that is due, then look at each node."""
        at_s = window.start_s
        restarted_s = max(
            (one.at_s for one in record.moves.get(self.metric, ()) if one.shifts is None), default=-math.inf
        )
        if restarted_s > self.restarted_s:
            self.restarted_s, self.course, self.built_s = restarted_s, None, -math.inf
            self.streams.clear()
        self._refresh(at_s, history, record, pools)
        for node in record.on_trial:
            self.since_s[node] = at_s + SETTLE_S
            self.streams.pop(node, None)
        if self.course is None:
            return
        self.course.take(window, judged=not inside(at_s, record.changing))
        settled_s = max([self.counts_since_s, *(end for _, end in record.changing if end <= at_s)])
        self.hear(window)
        threshold = self.log_threshold(pools)
        for node, hinted in zip(self.course.lines, hints_of(self.course.lines.values()), strict=True):
            if hinted or node in self.streams:
                self._look(self.course, node, hinted, at_s, settled_s, threshold)

    def _look(
        self, course: NodeCourse, node: str, hinted: bool, at_s: float, settled_s: float, threshold: float
    ) -> None:
        line, stream = course.lines[node], self.streams.get(node)
        if stream is not None and stream.alarmed:
            onset_s = at_s if stream.onset_s is None else stream.onset_s
            stream.recovery = line.scan.back(line.sums, line.sums.ticks - course.tick(onset_s), stream.rise)
            if stream.recovery >= BACK or at_s - self.seen_s.setdefault(node, at_s) > GONE_S:
                del self.streams[node]
                self.since_s[node] = at_s
            return
        since_s = max(self.since_s.get(node, -math.inf), settled_s)
        shown = line.shown(course.start_s, course.width_s, since_s) if hinted else None
        if shown is None:
            self.streams.pop(node, None)
            return
        stream = self.streams[node] = Stream(
            line=shown.line, rise=shown.rise, shown=shown.log_evidence, onset_s=shown.onset_s
        )
        stream.gain[0], stream.since_s[0] = max(shown.gain, 0.0), shown.onset_s
        stream.alarmed = shown.log_evidence >= threshold and is_its_own(self.itself(node), shown.rise)
        if stream.alarmed:
            # That it is back is asked against what it rose by, not the likeliest of a few sizes, which may be far off.
            risen, _ = line.scan.rise(line.sums, line.sums.ticks - course.tick(shown.onset_s))
            stream.rise = max(min(shown.rise, risen), SOUGHT.rises[0])

    def _refresh(self, at_s: float, history: Sequence[Window], record: PoolRecord, pools: int) -> None:
        """Learn what is usual, each hour, or more often until something is known."""
        due_s = REFRESH_MAX_S if self.course is None else MATURE_REFRESH_S
        if at_s - self.built_s < due_s or (self.course is not None and self.alarmed):
            return
        self.built_s = at_s
        closed = (*record.closed(self.metric), *record.changing)
        begun = [begin for begin, end in closed if end == math.inf]
        part = self.log_threshold(pools) * LINE_SUSPICION
        suspected = [since for one in self.streams.values() if (since := one.suspected_from(part)) is not None]
        end_s = min([at_s - GUARD_MAX_S, *begun, *suspected])
        start_s = max(end_s - self.condition.baseline_s, self.restarted_s)
        past = [window for window in history if start_s <= window.start_s < at_s]
        if end_s - start_s < MATURE_S or not past or end_s - past[0].start_s < MATURE_S - WINDOW_S:
            self.course = None
            return
        ended = [span for span in closed if span[1] < math.inf]
        self.course = node_course(past, self.metric, end_s, lambda starts: within(np.asarray(starts), ended))

    def dump(self) -> dict[str, Any]:
        return {
            "streams": {node: stream.dump() for node, stream in self.streams.items() if stream.alarmed},
            "since_s": self.since_s,
            "counts_since_s": self.counts_since_s if math.isfinite(self.counts_since_s) else None,
        }

    def load(self, state: dict[str, Any]) -> None:
        self.streams = {node: Stream.load(one) for node, one in state.get("streams", {}).items()}
        self.since_s = {node: float(since_s) for node, since_s in state.get("since_s", {}).items()}
        counts_since_s = state.get("counts_since_s")
        self.counts_since_s = -math.inf if counts_since_s is None else float(counts_since_s)


def is_its_own(found: Itself | None, rise: float) -> bool:
    """Whether it is the node itself that got slower, at no larger part of the requests. rise: of ln of its latency,
    against the others."""
    return found is not None and found.rise >= OWN_PART * rise and found.load <= MORE_LOAD
