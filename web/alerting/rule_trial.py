"""A rule tried over the past: how often it would have fired, where, and beside what it watches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.alerts import AlertRuleCreate, DryRun, RegressionCondition, WouldHaveFired
from controlplane.contract.bodies.slo import PROFILES, Limit
from controlplane.contract.metrics import POOL, PREFILL
from web.drawing.line_chart import Line, Mark, drawn
from web.frame.page import Context
from web.frame.selection import SERVING
from web.frame.time_range import MOST_POINTS, STEPS_S, duration
from web.pages.chart_parts import api_call, shown

USUAL = "1d"
SPANS = {"1h": "the last hour", "8h": "8 hours", "1d": "a day", "2d": "2 days", "7d": "a week", "28d": "4 weeks"}
USUAL_Q = 0.95


@dataclass(frozen=True)
class Watched:
    """A quantile of a latency that a rule is about. limit_s: what it is held to, where the rule says so."""

    metric: str
    q: float
    limit_s: float | None = None


def tried(client: Client, rule: AlertRuleCreate, over: str) -> Context:
    """Raises `BadRequest` for a rule that is none, or that cannot be tried."""
    window_s = duration(over, "over").total_seconds()
    trial = client.dry_run_rule({"rule": rule.model_dump(mode="json"), "window_s": window_s})
    watched = watched_by(rule, trial.times)
    return {"trial": trial, "drawing": None if watched is None else _chart(client, rule, trial, watched)}


def watched_by(rule: AlertRuleCreate, times: Sequence[WouldHaveFired]) -> Watched | None:
    """What fired first where anything did, else what the rule names first, or the largest stage; None: it is about no
    latency."""
    condition = rule.condition
    limits = list(_limits(rule))
    metrics = [one.metric for one in limits] or list(getattr(condition, "metrics", []))
    if not metrics and isinstance(condition, RegressionCondition):
        metrics = [one.labels["metric"] for one in times if "metric" in one.labels] or [PREFILL.short]
    fired = next((one.labels for one in times if one.labels.get("metric") in metrics), {})
    metric = fired.get("metric") or next(iter(metrics), None)
    if metric is None:
        return None
    held = next((one for one in limits if one.metric == metric and f"{one.q:g}" == fired.get("q", f"{one.q:g}")), None)
    if held is not None:
        return Watched(metric, held.q, held.limit_s)
    return Watched(metric, next(iter(getattr(condition, "q", [])), USUAL_Q))


def _limits(rule: AlertRuleCreate) -> Sequence[Limit]:
    condition = rule.condition
    named: Sequence[Limit] = getattr(condition, "limits", None) or getattr(condition, "objectives", None) or ()
    profile = getattr(condition, "profile", None)
    return named or (PROFILES[profile] if profile is not None else ())


def _chart(client: Client, rule: AlertRuleCreate, trial: DryRun, watched: Watched) -> Context:
    """The quantile over the time that was tried, what it is held to, and each time that the rule would have fired."""
    start_s, end_s = trial.start.timestamp(), trial.end.timestamp()
    step_s = next((step for step in STEPS_S if (end_s - start_s) / step <= MOST_POINTS), STEPS_S[-1])
    asked: dict[str, Any] = {"step": f"{step_s}s", "start": trial.start, "end": trial.end}
    asked |= SERVING if rule.pool is None else {**SERVING, POOL.label: rule.pool}
    answer = client.quantiles(watched.metric, (watched.q,), **asked)
    name = f"p{100 * watched.q:g}"
    points = [
        (at.time.timestamp(), value)
        for series in answer.series
        for at in series.points or []
        if (value := at.quantiles.get(f"{watched.q:g}")) is not None
    ]
    lines = [Line(name, points)]
    if watched.limit_s is not None:
        steps = range(int(start_s), int(end_s), step_s)
        lines.insert(0, Line("limit", [(float(at), watched.limit_s) for at in steps]))
    chart = drawn(lines, start_s, end_s, step_s, [mark for one in trial.times for mark in _marks(one)])
    count = sum(series.count for series in answer.series)
    call = api_call("quantiles", {"metric": watched.metric, "q": (watched.q,), **asked})
    return shown(chart, call, metric=watched.metric, count=count) | {"title": f"{watched.metric} {name}, and when"}


def _marks(one: WouldHaveFired) -> list[Mark]:
    found = [Mark(one.fired_at.timestamp(), "alert", "fires", one.summary)]
    if one.resolved_at is not None:
        found.append(Mark(one.resolved_at.timestamp(), "resolved", "", "it is over"))
    return found
