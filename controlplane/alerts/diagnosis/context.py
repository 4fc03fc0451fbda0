"""Gathering what a diagnosis needs from telemetry, the fleet's revisions and the ledger. Reads only."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from controlplane.alerts.diagnosis.arrival import Served
from controlplane.alerts.diagnosis.causes import Context, Level
from controlplane.alerts.diagnosis.config_change import RevisionSeen
from controlplane.alerts.diagnosis.diagnosis import STAGES, Measured
from controlplane.alerts.diagnosis.host_cause import slowest
from controlplane.alerts.diagnosis.host_readings import host_readings
from controlplane.alerts.diagnosis.rollout_record import rollouts_of
from controlplane.alerts.windows.history import Where
from controlplane.contract.errors import NotFound
from controlplane.contract.metrics import (
    CACHE_CLASS,
    DECODE,
    E2E,
    KV_USAGE,
    NODE,
    POOL,
    PREEMPTIONS,
    PROMPT_BUCKET,
    REVISION,
    RUNNING,
    TTFT,
    WAITING,
    WINDOW_S,
)
from controlplane.evidence.sketch import Sketch
from controlplane.fleet import store as fleet
from controlplane.ledger.tables import LedgerRow
from controlplane.telemetry.reader import TelemetryReader

Range = tuple[datetime, datetime]

LEDGER_BEFORE_S = 900.0
LEDGER_KINDS = ("revision", "rollout", "node", "trial", "config")
BEFORE_S = 600.0
"""A diagnosis compares with at most so much of what came before the onset."""


def measured(telemetry: TelemetryReader, where: Where, metric: str, before: Range, during: Range) -> Measured:
    """Sketches of the metric's stages, before and during."""
    parts = {*STAGES.get(metric, ()), DECODE.short}
    return Measured(_totals(telemetry, where, parts, before), _totals(telemetry, where, parts, during))


def _totals(telemetry: TelemetryReader, where: Where, parts: Iterable[str], span: Range) -> dict[str, Sketch]:
    found = {}
    for part in parts:
        total = Sketch()
        for series in telemetry.histograms(part, *span, where=where):
            total.merge(series.total)
        if total.count:
            found[part] = total
    return found


def surroundings(telemetry: TelemetryReader, where: Where, metric: str, before: Range, during: Range) -> Context:
    """Everything but the revisions' knobs and the ledger, which `with_records` adds."""
    counted = E2E.short if _shares(telemetry, where, E2E.short, NODE.label, during) else TTFT.short
    shares = {
        label: (_shares(telemetry, where, counted, label, before), _shares(telemetry, where, counted, label, during))
        for label in (REVISION.label, PROMPT_BUCKET.label, CACHE_CLASS.label)
    }
    windows = _windows(telemetry, where, counted, before[0], during[1])
    old, new = shares[REVISION.label]
    revisions = [
        RevisionSeen(int(name), old.get(name, 0.0), new.get(name, 0.0), windows.get(name, ()))
        for name in sorted({*old, *new})
        if name.isascii() and name.isdigit()
    ]
    pool = where.get(POOL.label, "")
    growth_s = _node_growth(telemetry, where, metric, before, during)
    return Context(
        pool=pool if isinstance(pool, str) else "",
        during_s=(during[1] - during[0]).total_seconds(),
        revisions=revisions,
        rate=Level(_rate(telemetry, where, counted, before), _rate(telemetry, where, counted, during)),
        backlog=Level(_backlog(telemetry, where, before), _backlog(telemetry, where, during)),
        prompt_before=shares[PROMPT_BUCKET.label][0],
        prompt_during=shares[PROMPT_BUCKET.label][1],
        cache_before=shares[CACHE_CLASS.label][0],
        cache_during=shares[CACHE_CLASS.label][1],
        preemptions=Level(
            _value(telemetry, where, PREEMPTIONS.short, before, per_second=True),
            _value(telemetry, where, PREEMPTIONS.short, during, per_second=True),
        ),
        kv_usage=_level(telemetry, where, KV_USAGE.short, before, during),
        running=_level(telemetry, where, RUNNING.short, before, during),
        waiting=_level(telemetry, where, WAITING.short, before, during),
        node_growth_s=growth_s,
        hosts=host_readings(telemetry, {**where, NODE.label: slowest(growth_s)} if growth_s else where, before, during),
    )


def with_records(session: Session, context: Context, onset: datetime, until: datetime) -> Context:
    """The same context with the revisions' knobs, the pool's rollouts, and what else was done around the onset."""
    since = onset - timedelta(seconds=LEDGER_BEFORE_S)
    rollouts = rollouts_of(session, context.pool, since, until)
    numbers = {seen.number for seen in context.revisions} | {one.revision for one in rollouts}
    numbers |= {one.previous_revision for one in rollouts if one.previous_revision is not None}
    knobs = {number: _knobs(session, number) for number in sorted(numbers)}
    query = (
        select(LedgerRow)
        .where(col(LedgerRow.time) >= since, col(LedgerRow.time) <= until)
        .order_by(col(LedgerRow.id).desc())
        .limit(200)
    )
    records = [
        {"time": row.time.isoformat(), "kind": row.kind, "subject": row.subject, "message": row.message}
        for row in session.exec(query)
        if row.kind.split(".")[0] in LEDGER_KINDS
    ]
    return replace(context, rollouts=rollouts, knobs=knobs, ledger=records[:10])


def _knobs(session: Session, number: int) -> Mapping[str, Any]:
    try:
        return fleet.revision(session, number).knobs.knobs()
    except NotFound:  # A foreign sender may number its configurations as it likes.
        return {}


def _shares(telemetry: TelemetryReader, where: Where, metric: str, label: str, span: Range) -> dict[str, float]:
    counts: dict[str, int] = {}
    for series in telemetry.histograms(metric, *span, by=(label,), where=where):
        name = series.labels.get(label)
        if name:
            counts[name] = counts.get(name, 0) + series.total.count
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else {}


def _windows(
    telemetry: TelemetryReader, where: Where, metric: str, start: datetime, end: datetime
) -> dict[str, list[Served]]:
    """For each revision every window in which the pool finished requests, with how many of them were under it."""
    own: dict[str, dict[datetime, int]] = {}
    totals: dict[datetime, int] = {}
    for series in telemetry.counts(metric, start, end, by=(REVISION.label,), where=where, step_s=WINDOW_S):
        steps = own.setdefault(series.labels.get(REVISION.label, ""), {})
        for time, count in series.steps:
            steps[time] = steps.get(time, 0) + round(count)
            totals[time] = totals.get(time, 0) + round(count)
    return {
        name: [Served(time, steps.get(time, 0), totals[time]) for time in sorted(totals)] for name, steps in own.items()
    }


def _backlog(telemetry: TelemetryReader, where: Where, span: Range) -> float | None:
    """Requests running and waiting at the end of the span, over all nodes."""
    found = [
        series.value
        for metric in (RUNNING.short, WAITING.short)
        for series in telemetry.scalars(metric, *span, by=(NODE.label,), where=where)
    ]
    return sum(found) if found else None


def _rate(telemetry: TelemetryReader, where: Where, metric: str, span: Range) -> float | None:
    steps = {
        time for series in telemetry.histograms(metric, *span, where=where, step_s=WINDOW_S) for time, _ in series.steps
    }
    count = sum(series.total.count for series in telemetry.histograms(metric, *span, where=where))
    if not steps:
        return None
    # From the first window with data on: a young pool's silence before its first request is not low load.
    return count / max((span[1] - min(steps)).total_seconds(), WINDOW_S)


def _level(telemetry: TelemetryReader, where: Where, metric: str, before: Range, during: Range) -> Level:
    return Level(_value(telemetry, where, metric, before), _value(telemetry, where, metric, during))


def _value(
    telemetry: TelemetryReader, where: Where, metric: str, span: Range, *, per_second: bool = False
) -> float | None:
    found = telemetry.scalars(metric, *span, where=where)
    if not found:
        return None
    total = sum(series.value for series in found)
    return total / max((span[1] - span[0]).total_seconds(), WINDOW_S) if per_second else total / len(found)


def _node_growth(
    telemetry: TelemetryReader, where: Where, metric: str, before: Range, during: Range
) -> dict[str, float]:
    means: list[dict[str, float]] = []
    for span in (before, during):
        found: dict[str, float] = {}
        for series in telemetry.histograms(metric, *span, by=(NODE.label,), where=where):
            mean = series.total.mean
            if mean is not None:
                found[series.labels.get(NODE.label, "")] = mean
        means.append(found)
    return {node: mean - means[0][node] for node, mean in means[1].items() if node in means[0]}
