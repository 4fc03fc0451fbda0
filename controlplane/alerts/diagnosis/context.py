"""Gathering what a diagnosis needs from telemetry, the fleet's revisions and the ledger. Reads only."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import numpy as np
from sqlmodel import Session, col, select

from controlplane.alerts.diagnosis.arrival import Served
from controlplane.alerts.diagnosis.causes import Context
from controlplane.alerts.diagnosis.change_event import USUAL_S
from controlplane.alerts.diagnosis.config_change import RevisionSeen
from controlplane.alerts.diagnosis.counted_ratio import Level, Ratio, compared, of_a_length, of_a_share
from controlplane.alerts.diagnosis.diagnosis import STAGES, Measured
from controlplane.alerts.diagnosis.draft_causes import Deliveries, DraftGroup, Drafts, draft_groups
from controlplane.alerts.diagnosis.host_cause import slowest
from controlplane.alerts.diagnosis.host_readings import host_readings
from controlplane.alerts.diagnosis.rollout_record import rollouts_of
from controlplane.alerts.windows.history import Where
from controlplane.contract.channels.inbound import EVENT_POSTED
from controlplane.contract.errors import NotFound
from controlplane.contract.metrics import (
    ACCEPTED_TOKENS,
    CACHE_CLASS,
    DECODE,
    DELIVERED_TOKENS,
    DRAFT_TOKENS,
    E2E,
    ITL,
    KV_USAGE,
    NODE,
    OUTPUT_TOKENS,
    POOL,
    PREEMPTIONS,
    PROMPT_BUCKET,
    REVISION,
    RUNNING,
    TENANT,
    TTFT,
    WAITING,
    WINDOW_S,
)
from controlplane.evidence.sketch import Sketch
from controlplane.fleet import store as fleet
from controlplane.ledger.tables import LedgerRow
from controlplane.telemetry import Question, Span, TelemetryReader, ValueSeries

T = TypeVar("T")

LEDGER_BEFORE_S = 900.0
LEDGER_KINDS = ("revision", "rollout", "node", "trial", "config", "event")
MOST_MARKS = 500
"""Who posts more within an hour has none that is near but by chance."""
LEAST_TOKENS, LEAST_ANSWERS = 100, 10
DRAFT_LABELS = (NODE.label, TENANT.label, PROMPT_BUCKET.label, CACHE_CLASS.label)
BEFORE_S = 600.0
"""A diagnosis compares with at most so much of what came before the onset."""


def measured(telemetry: TelemetryReader, where: Where, metric: str, before: Span, during: Span) -> Measured:
    """Sketches of the metric's stages, before and during."""
    parts = {*STAGES.get(metric, ()), DECODE.short}
    return Measured(_totals(telemetry, where, parts, before), _totals(telemetry, where, parts, during))


def _totals(telemetry: TelemetryReader, where: Where, parts: Iterable[str], span: Span) -> dict[str, Sketch]:
    found = {}
    for part in parts:
        total = Sketch()
        for series in telemetry.histograms(Question(part, span, where=where)):
            total.merge(series.total)
        if total.count:
            found[part] = total
    return found


def surroundings(telemetry: TelemetryReader, where: Where, metric: str, before: Span, during: Span) -> Context:
    """Everything but the revisions' knobs and the ledger, which `with_records` adds."""

    def both(read: Callable[[TelemetryReader, Question], T], name: str, *by: str) -> tuple[T, T]:
        then, now = (read(telemetry, Question(name, span, by, where)) for span in (before, during))
        return then, now

    counted = E2E.short if _shares(telemetry, Question(E2E.short, during, (NODE.label,), where)) else TTFT.short
    # Who sends, and what, is counted by first tokens: of those that take long few have ended while a slowdown is young.
    asked = TTFT.short if _shares(telemetry, Question(TTFT.short, during, (NODE.label,), where)) else counted
    shares = {label: both(_shares, asked, label) for label in (PROMPT_BUCKET.label, CACHE_CLASS.label, TENANT.label)}
    whole = Span(before.start, during.end)
    windows = _windows(telemetry, Question(counted, whole, (REVISION.label,), where, WINDOW_S))
    old, new = both(_shares, counted, REVISION.label)
    revisions = [
        RevisionSeen(int(name), old.get(name, 0.0), new.get(name, 0.0), windows.get(name, ()))
        for name in sorted({*old, *new})
        if name.isascii() and name.isdigit()
    ]
    pool = where.get(POOL.label, "")
    old_means, new_means = both(_means, metric, NODE.label)
    growth_s = {node: mean - old_means[node] for node, mean in new_means.items() if node in old_means}
    then, now = (_ratios(telemetry, where, span) for span in (before, during))
    accepted, given, answers = zip(then, now, strict=True)
    return Context(
        pool=pool if isinstance(pool, str) else "",
        during_s=during.seconds,
        revisions=revisions,
        rate=Level(*both(_rate, counted)),
        backlog=Level(_backlog(telemetry, where, before), _backlog(telemetry, where, during)),
        prompt_before=shares[PROMPT_BUCKET.label][0],
        prompt_during=shares[PROMPT_BUCKET.label][1],
        cache_before=shares[CACHE_CLASS.label][0],
        cache_during=shares[CACHE_CLASS.label][1],
        answer_tokens=compared(*answers, of_a_length),
        preemptions=Level(*both(_per_second, PREEMPTIONS.short)),
        kv_usage=Level(*both(_mean, KV_USAGE.short)),
        tenant_before=shares[TENANT.label][0],
        tenant_during=shares[TENANT.label][1],
        drafts=_drafts(telemetry, where, accepted, given, before, during),
        running=Level(*both(_mean, RUNNING.short)),
        waiting=Level(*both(_mean, WAITING.short)),
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
        _record(row)
        for row in session.exec(query)
        if row.kind.split(".")[0] in LEDGER_KINDS and _may_concern(row, context.pool)
    ]
    marks = _marks(session, context.pool, onset, until)
    return replace(context, rollouts=rollouts, knobs=knobs, ledger=records[:10], marks=marks)


def _marks(session: Session, pool: str, onset: datetime, until: datetime) -> list[dict[str, Any]]:
    """What others posted: that near the onset, and what tells how often they post. The newest by when it was told."""
    since = onset - timedelta(seconds=USUAL_S + BEFORE_S)
    query = (
        select(LedgerRow)
        .where(LedgerRow.kind == EVENT_POSTED, col(LedgerRow.time) >= since, col(LedgerRow.time) <= until)
        .order_by(col(LedgerRow.id).desc())
        .limit(MOST_MARKS)
    )
    return [
        {**_record(row), "link": row.evidence.get("link")} for row in session.exec(query) if _may_concern(row, pool)
    ]


def _record(row: LedgerRow) -> dict[str, str]:
    return {"time": _happened(row).isoformat(), "kind": row.kind, "subject": row.subject, "message": row.message}


def _happened(row: LedgerRow) -> datetime:
    """When it was, by those who posted it; of what was done here, when it was written down."""
    return datetime.fromisoformat(row.evidence["time"]) if row.kind == EVENT_POSTED else row.time


def _may_concern(row: LedgerRow, pool: str) -> bool:
    """Whether it was done to this pool, or its entry does not say to which."""
    said = row.evidence.get("labels", {}) if row.kind == EVENT_POSTED else row.evidence
    return bool(said.get(POOL.label, pool) == pool)


def _knobs(session: Session, number: int) -> Mapping[str, Any]:
    try:
        return fleet.revision(session, number).knobs.knobs()
    except NotFound:  # A foreign sender may number its configurations as it likes.
        return {}


def _shares(telemetry: TelemetryReader, question: Question) -> dict[str, float]:
    """Of the values of the one label that is asked by."""
    (label,) = question.by
    counts: dict[str, int] = {}
    for series in telemetry.histograms(question):
        name = series.labels.get(label)
        if name:
            counts[name] = counts.get(name, 0) + series.total.count
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else {}


def _windows(telemetry: TelemetryReader, question: Question) -> dict[str, list[Served]]:
    """For each revision every window in which the pool finished requests, with how many of them were under it."""
    own: dict[str, dict[datetime, int]] = {}
    totals: dict[datetime, int] = {}
    for series in telemetry.counts(question):
        steps = own.setdefault(series.labels.get(REVISION.label, ""), {})
        for time, count in series.steps:
            steps[time] = steps.get(time, 0) + round(count)
            totals[time] = totals.get(time, 0) + round(count)
    return {
        name: [Served(time, steps.get(time, 0), totals[time]) for time in sorted(totals)] for name, steps in own.items()
    }


def _backlog(telemetry: TelemetryReader, where: Where, span: Span) -> float | None:
    """Requests running and waiting at the end of the span, over all nodes."""
    found = [
        series.value
        for metric in (RUNNING.short, WAITING.short)
        for series in telemetry.scalars(Question(metric, span, (NODE.label,), where))
    ]
    return sum(found) if found else None


def _rate(telemetry: TelemetryReader, question: Question) -> float | None:
    stepped = replace(question, step_s=WINDOW_S)
    steps = {time for series in telemetry.histograms(stepped) for time, _ in series.steps}
    count = sum(series.total.count for series in telemetry.histograms(question))
    if not steps:
        return None
    # From the first window with data on: a young pool's silence before its first request is not low load.
    return count / max((question.span.end - min(steps)).total_seconds(), WINDOW_S)


def _mean(telemetry: TelemetryReader, question: Question) -> float | None:
    found = telemetry.scalars(question)
    return sum(series.value for series in found) / len(found) if found else None


def _per_second(telemetry: TelemetryReader, question: Question) -> float | None:
    found = telemetry.scalars(question)
    return sum(series.value for series in found) / max(question.span.seconds, WINDOW_S) if found else None


def _ratios(telemetry: TelemetryReader, where: Where, span: Span) -> tuple[Ratio, Ratio, Ratio]:
    """Of the draft tokens proposed those accepted; of the tokens of answers those that drafts gave (fewer where fewer
    are accepted, or fewer can be proposed); and tokens of an answer, of the requests that were answered."""
    accepted, proposed, tokens = (
        telemetry.scalars(Question(metric.short, span, where=where, step_s=WINDOW_S))
        for metric in (ACCEPTED_TOKENS, DRAFT_TOKENS, OUTPUT_TOKENS)
    )
    requests = telemetry.counts(Question(E2E.short, span, where=where, step_s=WINDOW_S))
    return (
        _ratio(accepted, proposed, LEAST_TOKENS),
        _ratio(accepted, tokens, LEAST_TOKENS),
        _ratio(tokens, requests, LEAST_ANSWERS),
    )


def _ratio(over: Sequence[ValueSeries], under: Sequence[ValueSeries], least: int) -> Ratio:
    sums: list[dict[datetime, float]] = [{}, {}]
    for found, steps in zip((over, under), sums, strict=True):
        for series in found:
            for time, value in series.steps:
                steps[time] = steps.get(time, 0.0) + value
    times = sorted(sums[1])
    above, below = (np.array([steps.get(time, 0.0) for time in times]) for steps in sums)
    return Ratio(above, below, least)


def _drafts(
    telemetry: TelemetryReader,
    where: Where,
    accepted: tuple[Ratio, Ratio],
    given: tuple[Ratio, Ratio],
    before: Span,
    during: Span,
) -> Drafts:
    of_pool = Drafts(compared(*accepted, of_a_share), compared(*given, of_a_share))
    if not accepted[0].under.any():
        return of_pool
    deliveries = _deliveries(telemetry, where, Span(before.start, during.end), during.start)
    found = replace(of_pool, groups=[one for by_label in deliveries for one in draft_groups(by_label)])
    return replace(found, gap_growth=_gap_growth(telemetry, where, found.apart, before, during))


def _deliveries(telemetry: TelemetryReader, where: Where, whole: Span, onset: datetime) -> list[Deliveries]:
    """By each label that more than one value is told of."""
    found = []
    for label in DRAFT_LABELS:
        question = Question(ITL.short, whole, (label,), where, WINDOW_S)
        gaps, tokens = telemetry.counts(question), telemetry.scalars(replace(question, metric=DELIVERED_TOKENS.short))
        values = sorted({one.labels.get(label, "") for one in tokens})
        times = sorted({time for one in tokens for time, _ in one.steps})
        if len(values) < 2:
            continue
        row, column = ({name: place for place, name in enumerate(of)} for of in (values, times))
        count, held = (np.zeros((len(values), len(times))) for _ in range(2))
        for into, series in ((count, gaps), (held, tokens)):
            for one in series:
                for time, value in one.steps:
                    if one.labels.get(label, "") in row and time in column:
                        into[row[one.labels.get(label, "")], column[time]] += value
        found.append(Deliveries(label, values, count, held, sum(time < onset for time in times)))
    return found


def _gap_growth(
    telemetry: TelemetryReader, where: Where, group: DraftGroup | None, before: Span, during: Span
) -> float:
    """1 where there is no group, or nothing known."""
    if group is None:
        return 1.0
    own = {**where, group.label: group.value}
    means = [telemetry.histograms(Question(ITL.short, span, where=own)) for span in (before, during)]
    then, now = (found[0].total.mean if found else None for found in means)
    return now / then if then and now else 1.0


def _means(telemetry: TelemetryReader, question: Question) -> dict[str, float]:
    """By node."""
    means = {series.labels.get(NODE.label, ""): series.total.mean for series in telemetry.histograms(question)}
    return {node: mean for node, mean in means.items() if mean is not None}
