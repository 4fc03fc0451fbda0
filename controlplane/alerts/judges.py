"""One judge for each kind of rule: from telemetry or the fleet to findings, in the order of event time. Reads only."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.alerts import absolute
from controlplane.alerts.accuracy import accuracy
from controlplane.alerts.baseline import FLEET, threshold_s
from controlplane.alerts.detector import Detector, Span
from controlplane.alerts.diagnosis.config_change import knob_changes
from controlplane.alerts.diagnosis.diagnosis import duration, percentile
from controlplane.alerts.finding import Finding
from controlplane.alerts.history import History, Where, Window, instant, merged
from controlplane.alerts.machine import Patience, Reading
from controlplane.alerts.pool_totals import PoolTotals
from controlplane.contract.alerts import AbsoluteCondition, DriftCondition
from controlplane.contract.configs import Revision
from controlplane.contract.histogram import axis_position
from controlplane.contract.metrics import E2E, WINDOW_S
from controlplane.contract.nodes import NodeView
from controlplane.contract.slo import PROFILES, Limit
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.sketch import Sketch

RESOLVE_S = 15.0
SHORT_BASELINE_S = 7200.0
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
    steps: dict[datetime, Sketch] = {}
    for series in telemetry.histograms(limit.metric, start, first_breach, where=where, step_s=WINDOW_S):
        for time, sketch in series.steps:
            steps.setdefault(time, Sketch()).merge(sketch)
    onset = first_breach - timedelta(seconds=WINDOW_S)
    for time in sorted(steps, reverse=True):
        sketch = steps[time]
        if sketch.above(axis_position(limit.limit_s)) <= (1.0 - limit.q) * sketch.count:
            break
        onset = time
    return onset


# -- regression --------------------------------------------------------------------------------------------------------


def regression_labels(pool: str, metric: str) -> dict[str, str]:
    return {"kind": "regression", "pool": pool, "metric": metric}


def judge_regression(
    detector: Detector, history: History, pool: str, since_s: float, end_s: float, closed: Sequence[Span], firing: Open
) -> list[Finding]:
    """One finding per metric and window of [since_s, end_s).

    While a part of the way is firing (time to first token, or the gaps between tokens), the end-to-end duration, which
    is their sum, opens no alert of its own.
    """
    findings: list[Finding] = []
    windows = [window for window in history.windows if since_s <= window.start_s < end_s]
    for window in windows:
        detector.advance(window, history.windows, closed)
        alarmed = [metric for metric in detector.condition.metrics if detector.alarmed(metric)]
        for metric in detector.condition.metrics:
            labels = regression_labels(pool, metric)
            covered = metric == E2E.short and alarmed != [metric] and not firing(labels)
            findings.append(_regression_finding(detector, history, window, labels, alarmed, covered, firing(labels)))
    if not windows:
        quiet = instant(end_s)
        findings = [
            Finding(regression_labels(pool, metric), quiet, Reading.HOLD) for metric in detector.condition.metrics
        ]
    return findings


def _regression_finding(
    detector: Detector,
    history: History,
    window: Window,
    labels: dict[str, str],
    alarmed: Sequence[str],
    covered: bool,
    told: bool,
) -> Finding:
    at, metric = instant(window.start_s + WINDOW_S), labels["metric"]
    keys = detector.alarmed(metric)
    if not keys:
        return Finding(labels, at, Reading.CLEAR)
    if covered:
        return Finding(labels, at, Reading.HOLD)
    # The fleet's stream speaks before a prompt bucket's, and the higher quantile before the lower.
    key = min(keys, key=lambda name: (not name.endswith(f"|{FLEET}"), -float(name.split("|")[1])))
    q, bucket = float(key.split("|")[1]), key.split("|", 2)[2]
    # A sender that does not tell prompt lengths has all its requests in one nameless bucket, which is the fleet.
    only = bucket if bucket not in (FLEET, "") else None
    baseline = detector.baselines.get(f"{metric}|{q:g}")
    if told or baseline is None:
        return Finding(labels, at, Reading.BREACH)
    onset_s = detector.streams[key].onset_s or window.start_s
    slow = [one for one in history.windows if onset_s <= one.start_s <= window.start_s]
    past = [one for one in history.windows if baseline.start_s <= one.start_s <= baseline.end_s]
    during, before = merged(slow, metric, only), merged(past, metric, only)
    before_s = before.quantile(q) if before.count else None
    span_s = baseline.end_s - baseline.start_s + WINDOW_S
    error = max(during.relative_error, before.relative_error)
    where = "" if only is None else f" for prompts of {only} tokens"
    return Finding(
        labels,
        at,
        Reading.BREACH,
        since=instant(onset_s),
        metric=metric,
        q=q,
        value=during.quantile(q) if during.count else None,
        threshold=before_s,
        before_s=before_s,
        relative_error=error,
        summary=f"{metric.upper()} {percentile(q)}{where} is above its baseline",
        evidence={
            "q": q,
            "prompt_bucket": only,
            "also_slower": [name for name in alarmed if name != metric],
            "onset": instant(onset_s).isoformat(),
            "load_per_node": round(window.load, 3),
            "slow_above_s": {name: round(threshold_s(known), 6) for name, known in baseline.buckets.items()},
            "baseline": {
                "start": instant(baseline.start_s).isoformat(),
                "span_s": span_s,
                "count": baseline.count,
                "short": span_s < SHORT_BASELINE_S,
            },
            "streams": {
                name: {
                    "log_evidence": round(detector.streams[name].log_evidence, 2),
                    "phi": round(
                        detector.baselines["|".join(name.split("|")[:2])].phi.get(name.split("|", 2)[2], 1.0), 2
                    ),
                }
                for name in keys
            },
            "error_rate": _error_rate(detector, span_s),
            **accuracy(error),
        },
    )


def _error_rate(detector: Detector, span_s: float) -> dict[str, Any]:
    every_s = detector.condition.false_alarm_every_s
    length = f"{span_s / 3600:.1f} h" if span_s >= 3600 else f"{span_s:.0f} s"
    honest = ": short, so its slow noise is partly guessed" if span_s < SHORT_BASELINE_S else ""
    return {
        "false_alarm_every_s": every_s,
        "streams": detector.stream_count,
        "log_threshold": round(detector.log_threshold, 2),
        "statement": (
            f"designed for one false alarm in {every_s / 86400:.3g} days over {detector.stream_count} streams, "
            f"as far as the baseline shows the usual noise (it is {length} long{honest})"
        ),
    }


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
        differing = {} if wanted is None else knob_changes(wanted.knobs.knobs(), effective)
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
