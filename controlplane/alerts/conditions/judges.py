"""One judge for each kind of rule: from telemetry or the fleet to findings, in the order of event time. Reads only."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.alerts.conditions import absolute
from controlplane.alerts.conditions.accuracy import accuracy
from controlplane.alerts.conditions.finding import Finding, Patience, Reading
from controlplane.alerts.windows.history import Where
from controlplane.alerts.windows.pool_totals import PoolTotals
from controlplane.alerts.words import duration, percentile
from controlplane.contract.bodies.alerts import AbsoluteCondition, DriftCondition
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.slo import PROFILES, Limit
from controlplane.contract.histogram import axis_position
from controlplane.contract.knobs import difference
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span, TelemetryReader

RESOLVE_S = 15.0
Open = Callable[[dict[str, str]], bool]
"""Tells whether the alert with these labels is firing."""


# -- absolute limits ---------------------------------------------------------------------------------------------------


def limits_of(condition: AbsoluteCondition) -> Sequence[Limit]:
    """The rule's own limits, else those of its profile."""
    return condition.limits or (PROFILES[condition.profile] if condition.profile else ())


def absolute_labels(pool: str, limit: Limit) -> dict[str, str]:
    return {"kind": "absolute", "pool": pool, "metric": limit.metric, "q": f"{limit.q:g}"}


def judge_absolute(
    condition: AbsoluteCondition, totals: PoolTotals, pool: str, ends: Iterable[datetime], firing: Open
) -> list[Finding]:
    """One finding per limit and window end."""
    patience = Patience(condition.for_s, max(condition.for_s, RESOLVE_S))
    findings = []
    for end in ends:
        start = end - timedelta(seconds=condition.window_s)
        for limit in limits_of(condition):
            labels = absolute_labels(pool, limit)
            total = totals.of(pool, limit.metric, start, end)
            seen = absolute.judge(total, limit, min_count=condition.min_count, firing=firing(labels))
            findings.append(_absolute_finding(condition, limit, labels, end, patience, seen))
    return findings


def _absolute_finding(
    condition: AbsoluteCondition,
    limit: Limit,
    labels: dict[str, str],
    end: datetime,
    patience: Patience,
    seen: absolute.Observation,
) -> Finding:
    evidence: dict[str, Any] = {"window_s": condition.window_s, "count": seen.count, "above": seen.above}
    evidence |= accuracy(seen.relative_error)
    if seen.chance is not None:
        share = 1.0 - limit.q
        evidence["error_rate"] = {
            "chance_at_most": seen.chance,
            "statement": (
                f"{seen.above} of {seen.count} requests above the limit; by luck alone, were {share:.3g} of them slow "
                f"and all independent, so many would come with a probability of at most {seen.chance:.2g}"
            ),
        }
    value = "too few requests" if seen.value_s is None else duration(seen.value_s)
    return Finding(
        labels,
        end,
        seen.reading,
        patience,
        metric=limit.metric,
        q=limit.q,
        value=seen.value_s,
        threshold=limit.limit_s,
        relative_error=seen.relative_error,
        summary=f"{limit.metric.upper()} {percentile(limit.q)} is {value}, limit {duration(limit.limit_s)}",
        evidence=evidence,
    )


def onset_of_breach(
    telemetry: TelemetryReader, where: Where, limit: Limit, first_breach: datetime, window_s: float
) -> datetime:
    """The start of the run of windows, up to the first breach, each of which had more slow requests than allowed."""
    start = first_breach - timedelta(seconds=min(window_s, 600.0))
    question = Question(limit.metric, Span(start, first_breach), where=where, step_s=WINDOW_S)
    steps: dict[datetime, Sketch] = {}
    for series in telemetry.histograms(question):
        for time, sketch in series.steps:
            steps.setdefault(time, Sketch()).merge(sketch)
    onset = first_breach - timedelta(seconds=WINDOW_S)
    for time in sorted(steps, reverse=True):
        sketch = steps[time]
        if sketch.above(axis_position(limit.limit_s)) <= (1.0 - limit.q) * sketch.count:
            break
        onset = time
    return onset


# -- drift -------------------------------------------------------------------------------------------------------------


def judge_drift(
    condition: DriftCondition, nodes: Sequence[NodeView], now: datetime, desired: Callable[[int], Revision | None]
) -> list[Finding]:
    """One finding per node."""
    findings = []
    for node in nodes:
        labels = {"kind": "drift", "pool": node.pool, "node": node.node}
        if not node.drift:
            findings.append(Finding(labels, now, Reading.CLEAR))
            continue
        wanted = None if node.desired_revision is None else desired(node.desired_revision)
        effective = {} if node.effective is None else node.effective.knobs
        differing = {} if wanted is None else difference(wanted.knobs.knobs(), effective)
        words = ", ".join(f"{name} is {pair[1]}, wanted {pair[0]}" for name, pair in differing.items()) or "unknown"
        error = f"; the node says: {node.config_error}" if node.config_error else ""
        findings.append(
            Finding(
                labels,
                now,
                Reading.BREACH,
                Patience(condition.for_s),
                since=node.drift_since,
                summary=f"node {node.node} does not run what it should ({words}){error}",
                evidence={
                    "desired_revision": node.desired_revision,
                    "effective_revision": None if node.effective is None else node.effective.revision,
                    "differing": differing,
                    "config_status": node.config_status.value,
                    "connected": node.connected,
                    "error_rate": {"statement": "read back from the engine: no statistics, no chance involved"},
                },
            )
        )
    return findings
