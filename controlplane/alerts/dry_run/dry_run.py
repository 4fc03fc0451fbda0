"""Tries a rule over the past: the kinds of rules themselves, over stored windows, by a clock that is given.

Guarantee: nothing is written and nobody is told. What the rule would have seen is what telemetry still keeps: of a past
that is kept in wider windows only, these are judged, and the answer says so. Nodes and configurations are as they are
now.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from controlplane.alerts.checks import check_rule
from controlplane.alerts.conditions import KINDS
from controlplane.alerts.conditions.kind import Job, Kind, Snapshot, Sources
from controlplane.alerts.dry_run.remembered_telemetry import RememberedTelemetry
from controlplane.alerts.lives.judged import Judged, judged
from controlplane.alerts.lives.lifecycle import Draft
from controlplane.alerts.lives.machine import Event
from controlplane.alerts.symptoms.usual_severity import with_severity
from controlplane.alerts.tables import AlertRow
from controlplane.contract.bodies.alerts import (
    AlertRule,
    AlertRuleCreate,
    AlertState,
    DryRun,
    DryRunCreate,
    WouldHaveFired,
)
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import E2E, POOL, RUNNING, TTFT, WINDOW_S
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.telemetry import Question, Span, TelemetryReader

LAG_S = 10.0
MOST_TIMES = 200
STEPS = 1000
"""Of the past so many steps are looked through for where traffic begins."""
WEEK_S = 7 * 86400.0
BUDGET_S = 20.0
"""What one dry run may take; what has not been judged by then is not."""
RULE_ID = 0


@dataclass(frozen=True)
class Past:
    """The past that a rule is tried over. width_s: of the windows that are kept of all of it."""

    start: datetime
    end: datetime
    width_s: float


@dataclass
class Life:
    """One pool during a dry run: where its judge stands, and its alerts, none of which is in the database."""

    position: datetime
    state: dict[str, Any] = field(default_factory=dict)
    alerts: dict[str, AlertRow] = field(default_factory=dict)
    times: list[WouldHaveFired] = field(default_factory=list)


def past_of(wanted: DryRunCreate, now: datetime, levels_s: Mapping[int, float]) -> Past:
    """The span on the windows' grid, and the finest windows that are kept of all of it. Raises `BadRequest`."""
    end = min(wanted.end or now, now)
    if end.tzinfo is None:
        raise BadRequest("end: give a timezone, as in 2030-01-01T00:00:00Z", field="end")
    age_s = (now - end).total_seconds() + wanted.window_s
    fitting = [width for width, kept_s in levels_s.items() if kept_s >= age_s or width == max(levels_s)]
    width_s = float(min(fitting))
    end_s = math.floor((end.timestamp() - LAG_S) / width_s) * width_s
    start_s = math.floor((end_s - wanted.window_s) / width_s) * width_s
    return Past(datetime.fromtimestamp(start_s, now.tzinfo), datetime.fromtimestamp(end_s, now.tzinfo), width_s)


def dry_run(
    database: Database,
    telemetry: TelemetryReader,
    wanted: AlertRuleCreate,
    past: Past,
    *,
    budget_s: float = BUDGET_S,
    elapsed_s: Callable[[], float] = time.monotonic,
) -> DryRun:
    """Raises `BadRequest` for a rule that is none, or whose past nobody keeps."""
    check_rule(wanted)
    kind_of = KINDS[type(wanted.condition)]
    if kind_of.dry_run_step_s is None:
        raise BadRequest(
            f"rule.condition.kind: {wanted.condition.kind} cannot be tried over the past: of what nodes were told and "
            "said only the present is kept; try rules on telemetry",
            field="rule.condition.kind",
        )
    remembered = RememberedTelemetry(telemetry, past.end)
    kind = kind_of(Sources(database, remembered, math.inf, past.width_s))
    rule = AlertRule(**with_severity(wanted).model_dump(), id=RULE_ID, created_at=past.start)
    began_at = _first_traffic(telemetry, past)
    seen = _snapshot(database, rule, began_at)
    # Before there was any traffic nothing could fire: the time for trying is not for that.
    at = min((began_at.get(pool, past.start) for pool in seen.pools), default=past.start)
    tried = replace(past, start=at)
    lives = {pool: Life(at) for pool in sorted(seen.pools)}
    began, step = elapsed_s(), timedelta(seconds=max(kind_of.dry_run_step_s, past.width_s))
    while at < past.end and elapsed_s() - began < budget_s:
        at = min(at + step, past.end)
        _judge(kind, rule, lives, seen, at, database)
    notes = _notes(past, tried.start, at, lives)
    return _answer(tried, at, lives, list(notes))


def _first_traffic(telemetry: TelemetryReader, past: Past) -> dict[str, datetime]:
    """Pool to when its traffic begins in the past, to a step; one without any is not there."""
    span = Span(past.start, past.end)
    step_s = past.width_s * math.ceil((past.end - past.start).total_seconds() / past.width_s / STEPS)
    found: dict[str, datetime] = {}
    for ask, metric in ((telemetry.counts, E2E), (telemetry.counts, TTFT), (telemetry.scalars, RUNNING)):
        for one in ask(Question(metric.short, span, (POOL.label,), step_s=step_s)):
            pool, times = one.labels.get(POOL.label, ""), [time for time, _ in one.steps]
            found[pool] = max(past.start, min([*times, found.get(pool, past.end)]))
    return found


def _snapshot(database: Database, rule: AlertRule, found: Iterable[str]) -> Snapshot:
    with database.read_session() as session:
        seen = Snapshot([(rule, 1)], fleet.nodes(session), {}, [])
    serving = {node.pool for node in seen.nodes if node.role is NodeRole.SERVING}
    trial = {node.pool for node in seen.nodes} - serving
    seen.pools = {pool for pool in ({*found} | serving) - trial - {""} if rule.pool in (None, pool)}
    return seen


def _judge(
    kind: Kind[Any], rule: AlertRule, lives: Mapping[str, Life], seen: Snapshot, end: datetime, database: Database
) -> None:
    with database.read_session() as session:
        kind.read(session, [rule.condition], end)
    jobs = [
        Job(kind, rule, 1, pool, len(lives), life.position, life.state, life.alerts) for pool, life in lives.items()
    ]
    kind.prepare(jobs, seen, end)
    for job in jobs:
        result = judged(job, seen, end, end)
        if result is not None:
            _take(lives[job.pool], result, end)


def _take(life: Life, result: Judged, end: datetime) -> None:
    life.position, life.state = end, result.findings.state
    for draft in result.drafts:
        if Event.FIRED in draft.events and draft.story is not None:
            life.times.append(_fired(draft))
        if draft.life.state is AlertState.RESOLVED:
            life.alerts.pop(draft.fingerprint, None)
            _resolve(life, draft)
        else:
            life.alerts[draft.fingerprint] = _row(draft)


def _fired(draft: Draft) -> WouldHaveFired:
    story = draft.story
    assert story is not None and draft.life.breach_since is not None
    return WouldHaveFired(
        labels=draft.labels,
        started_at=story.since or draft.life.breach_since,
        fired_at=story.at,
        lasted_s=0.0,
        summary=story.summary,
    )


def _resolve(life: Life, draft: Draft) -> None:
    last = next((one for one in reversed(life.times) if one.labels == draft.labels), None)
    if last is not None and last.resolved_at is None and draft.latest is not None:
        last.resolved_at = draft.latest.at


def _row(draft: Draft) -> AlertRow:
    """As the judges see an open alert; it is in no session."""
    latest, of = draft.latest, draft.life
    assert of.state is not None and of.breach_since is not None
    return AlertRow(
        id=None,
        fingerprint=draft.fingerprint,
        rule_id=RULE_ID,
        rule="",
        kind="",
        pool=draft.labels.get(POOL.label, ""),
        state=of.state.value,
        severity="",
        labels=draft.labels,
        summary="",
        started_at=of.breach_since,
        breach_since=of.breach_since,
        clear_since=of.clear_since,
        hold_since=of.hold_since,
        threshold=None if latest is None else latest.threshold,
        evidence={} if latest is None else latest.evidence,
    )


def _answer(past: Past, judged_to: datetime, lives: Mapping[str, Life], notes: list[str]) -> DryRun:
    times = sorted((one for life in lives.values() for one in life.times), key=lambda one: one.fired_at)
    for one in times:
        one.lasted_s = ((one.resolved_at or judged_to) - one.fired_at).total_seconds()
    tried_s = max((judged_to - past.start).total_seconds(), WINDOW_S)
    return DryRun(
        start=past.start,
        end=past.end,
        judged_to=judged_to,
        width_s=past.width_s,
        pools=list(lives),
        fired=len(times),
        a_week=round(len(times) * WEEK_S / tried_s, 2),
        firing_s=_covered_s(times),
        times=times[:MOST_TIMES],
        notes=notes,
    )


def _covered_s(times: Iterable[WouldHaveFired]) -> float:
    total_s, until = 0.0, None
    for one in times:  # By the time of firing.
        end = one.fired_at + timedelta(seconds=one.lasted_s)
        begin = one.fired_at if until is None else max(one.fired_at, until)
        total_s += max((end - begin).total_seconds(), 0.0)
        until = end if until is None else max(until, end)
    return total_s


def _notes(past: Past, tried_from: datetime, judged_to: datetime, lives: Mapping[str, Life]) -> Iterable[str]:
    if tried_from > past.start:
        hours = (judged_to - tried_from).total_seconds() / 3600.0
        yield (
            f"there was no traffic before {tried_from:%Y-%m-%d %H:%M} UTC: how often it is a week is reckoned "
            f"from {hours:.2g} h"
        )
    if past.width_s > WINDOW_S:
        yield (
            f"of this past windows of {past.width_s:g} s are kept, live ones are {WINDOW_S:g} s: what is shorter than "
            f"{past.width_s:g} s is smoothed, times are exact to {past.width_s:g} s"
        )
    if judged_to < past.end:
        yield f"the time for trying was used up: nothing is said of the time after {judged_to.isoformat()}"
    if not lives:
        yield "no pool had any traffic in that time"
    yield "nodes and their configurations are taken as they are now"
