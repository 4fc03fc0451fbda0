"""Telemetry that a node lost: from the counters that its agent sends to findings.

An agent tells in its reports how many earlier ones it had to drop (its spool was full) and how many engine events it
never saw (it was away for longer than the engine's ring lasts). Such a report is itself held back by the outage that
made the spool overflow, so its own time may lie hours back when it comes in: the counters of the last `LOOK_BACK_S` are
read again at each tick, and what has grown is news.

Guarantees: each lost report or event is told of once, in whatever order reports come in, and after a restart of the
service; an alert lasts until nothing was lost for `quiet_s`; nodes that do not serve never alert.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.fleet_wide.fleet_scope import concerned
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Scope, Snapshot
from controlplane.contract.bodies.alerts import TelemetryLostCondition
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.metrics import EVENTS_MISSED, NODE, SPOOL_DROPPED
from controlplane.telemetry import Question, Span, TelemetryReader

LOOK_BACK_S = 6 * 3600.0
STEP_S = 300
"""What has been told is remembered by the step (seconds) that it lies in."""


@dataclass(frozen=True)
class Loss:
    """Reports dropped and engine events missed."""

    reports: int = 0
    events: int = 0

    def __bool__(self) -> bool:
        return self.reports > 0 or self.events > 0

    def __add__(self, other: "Loss") -> "Loss":
        return Loss(self.reports + other.reports, self.events + other.events)

    def beyond(self, told: "Loss") -> "Loss":
        """What of this is not in `told`."""
        return Loss(max(self.reports - told.reports, 0), max(self.events - told.events, 0))

    @property
    def words(self) -> str:
        reports = f"{self.reports} report{'s' * (self.reports != 1)} dropped unsent, its spool could hold no more"
        events = f"{self.events} engine event{'s' * (self.events != 1)} never seen by its agent"
        return "; ".join(words for words, count in ((reports, self.reports), (events, self.events)) if count)


Steps = Mapping[int, Loss]
"""Start of a step (seconds since the epoch) to what was lost in it."""


class TelemetryLost(Kind[TelemetryLostCondition]):
    condition = TelemetryLostCondition
    scope = Scope.FLEET
    dry_run_step_s = None

    def judge(self, job: Job[TelemetryLostCondition], seen: Snapshot, end: datetime) -> Findings:
        losses = losses_of(self._sources.telemetry, end)
        nodes = concerned(job, seen, lambda node: node.node in losses)
        return Findings(*judge_telemetry_lost(job.condition, losses, job.state, nodes, end))


def losses_of(telemetry: TelemetryReader, now: datetime) -> dict[str, dict[int, Loss]]:
    """What each node lost in the last `LOOK_BACK_S`; nodes that lost nothing are absent."""
    start = datetime.fromtimestamp(_step(now - timedelta(seconds=LOOK_BACK_S)), UTC)
    span = Span(start, datetime.fromtimestamp(_step(now) + STEP_S, UTC))
    found: dict[str, dict[int, Loss]] = {}
    for metric in (SPOOL_DROPPED, EVENTS_MISSED):
        for series in telemetry.scalars(Question(metric.short, span, by=(NODE.label,), step_s=STEP_S)):
            steps = found.setdefault(series.labels.get(NODE.label, ""), {})
            for time, value in series.steps:
                loss = Loss(reports=round(value)) if metric is SPOOL_DROPPED else Loss(events=round(value))
                steps[_step(time)] = steps.get(_step(time), Loss()) + loss
    return found


def labels_of(node: NodeView) -> dict[str, str]:
    return {"kind": "telemetry_lost", "pool": node.pool, "node": node.node}


def judge_telemetry_lost(
    condition: TelemetryLostCondition,
    losses: Mapping[str, Steps],
    state: Mapping[str, Any],
    nodes: Sequence[NodeView],
    now: datetime,
) -> tuple[list[Finding], dict[str, Any]]:
    """A finding for every serving node in `nodes`, and the state for the next tick.

    State, empty at the rule's first tick: {"told": {node: {step: [reports, events]}}, "open": {node: {"since", "last",
    "lost": [reports, events]}}}, of nodes that have lost something.
    """
    told = {
        node: {int(step): Loss(*loss) for step, loss in steps.items()}
        for node, steps in dict(state.get("told", {})).items()
    }
    lasting = dict(state.get("open", {}))
    oldest = _step(now - timedelta(seconds=LOOK_BACK_S))
    first = not state
    findings: list[Finding] = []
    kept: dict[str, dict[str, Any]] = {}
    remembered: dict[str, dict[str, list[int]]] = {}
    for node in nodes:
        if node.role is not NodeRole.SERVING:
            continue
        found, known = losses.get(node.node, {}), told.get(node.node, {})
        if first:  # The rule is younger than what happened before it, and that is over.
            known = {step: loss for step, loss in found.items() if step + STEP_S <= now.timestamp() - condition.quiet_s}
        grown = {step: loss.beyond(known.get(step, Loss())) for step, loss in found.items()}
        new = sum((loss for loss in grown.values()), Loss())
        begun = lasting.get(node.node)
        if new:
            since = datetime.fromtimestamp(min(step for step, loss in grown.items() if loss), UTC)
            before = Loss() if begun is None else Loss(*begun["lost"])
            kept[node.node] = {
                "since": min(since, now).isoformat() if begun is None else begun["since"],
                "last": now.isoformat(),
                "lost": [before.reports + new.reports, before.events + new.events],
            }
        elif begun is not None and (now - datetime.fromisoformat(begun["last"])).total_seconds() < condition.quiet_s:
            kept[node.node] = begun
        findings.append(_finding(node, kept.get(node.node), now))
        # What a restored backup has less of was told of all the same.
        both = {step: known.get(step, Loss()) + grown.get(step, Loss()) for step in {*found, *known}}
        remembered[node.node] = {
            str(step): [loss.reports, loss.events] for step, loss in sorted(both.items()) if step >= oldest
        }
    return findings, {"told": {name: steps for name, steps in remembered.items() if steps}, "open": kept}


def _finding(node: NodeView, lasting: Mapping[str, Any] | None, now: datetime) -> Finding:
    if lasting is None:
        return Finding(labels_of(node), now, Reading.CLEAR)
    lost = Loss(*lasting["lost"])
    return Finding(
        labels_of(node),
        now,
        Reading.BREACH,
        since=datetime.fromisoformat(lasting["since"]),
        summary=f"node {node.node} lost telemetry for good: {lost.words}",
        evidence={
            "reports_dropped": lost.reports,
            "events_missed": lost.events,
            "last_told_at": lasting["last"],
            "error_rate": {"statement": "counted by the node's agent: no statistics, no chance involved"},
        },
    )


def _step(time: datetime) -> int:
    return int(time.timestamp() // STEP_S) * STEP_S
