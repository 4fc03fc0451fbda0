"""What is told of an alert: the diagnosis when it fires, and the news while it is open.

Guarantee: a failure here costs the diagnosis or delays an update, never the alert. A diagnosis asks telemetry a dozen
questions, so an open alert is looked into again when it has lasted twice as long as at the last look, later once a
minute at most, and besides only when there is news to tell. What such a look names otherwise than the one before is
written on the alert while it is of the whole slowdown; people hear of it where it is news.
"""

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import col, select

from controlplane.alerts import words
from controlplane.alerts.conditions.finding import Finding
from controlplane.alerts.conditions.kind import Job, Look
from controlplane.alerts.diagnosis import context
from controlplane.alerts.diagnosis.about import about, in_words
from controlplane.alerts.diagnosis.causes import causes
from controlplane.alerts.diagnosis.confirmed_causes import confirmed_causes
from controlplane.alerts.diagnosis.diagnosis import STAGES, Shift, diagnose, placed, stage_shifts
from controlplane.alerts.diagnosis.felt import felt
from controlplane.alerts.diagnosis.plausibility import learned
from controlplane.alerts.diagnosis.shift_parts import attribution
from controlplane.alerts.diagnosis.shift_readings import read_shift
from controlplane.alerts.lives import updates
from controlplane.alerts.lives.lifecycle import Draft, News
from controlplane.alerts.lives.machine import Event
from controlplane.alerts.lives.updates import Seen, Told
from controlplane.alerts.tables import AlertRow
from controlplane.alerts.windows.history import Where
from controlplane.contract.bodies.alerts import AlertState, Diagnosis
from controlplane.contract.metrics import E2E, NODE, PROMPT_BUCKET, TTFT, WINDOW_S
from controlplane.db.database import Database
from controlplane.evidence.shifts.change_point import LEAST_TICKS
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span, TelemetryReader

log = logging.getLogger(__name__)

AGAIN_S = 120.0
"""A diagnosis of an open alert is of so much of it: what it is like now, not on the average of hours."""
LEAST_BEFORE_S = 60.0
"""A shorter calm is too little to compare with: what was before it counts, too."""
PARTS = (PROMPT_BUCKET.label, NODE.label)
"""What a story may be about alone, as its evidence says."""
ONSET = "onset"
"""Where an alert's evidence keeps since when it was slow, in ISO format."""
Q_OF_STAGE = 0.95
"""Of the time to first token, where an alert is of a stage of it and has no quantile of its own."""
PENDING = "seen"
"""Where a job's state keeps what its open alerts have not been told of yet, by fingerprint."""


class Storyteller:
    """For one thread. `follow_up` at each tick for what is open, `tell` once for what fires."""

    def __init__(self, database: Database, telemetry: TelemetryReader) -> None:
        self._database = database
        self._telemetry = telemetry
        self._looked_at: dict[str, datetime] = {}  # By fingerprint: the last diagnosis of an open alert.

    def tell(self, job: Job[Any], draft: Draft, where: Where, reach: frozenset[str], now: datetime) -> None:
        """Diagnose a firing alert, and note what its receivers will know."""
        story = draft.story
        assert story is not None
        if not story.metric:
            draft.diagnosis = self._without_metric(job, draft, story, where, now)
            return
        try:
            found, nodes, of = self._look(job, draft, story, where, now, updates.PERHAPS_CHANCE)
        except Exception:
            log.exception("no diagnosis for rule %s on pool %r", job.rule.id, job.pool)
            return
        self._looked_at[draft.fingerprint] = now
        draft.story = replace(story, evidence={**story.evidence, **of})
        draft.diagnosis = found
        draft.told = Told(now, story.value, reach | _reach(found) | nodes, _cause(found))

    def _without_metric(self, job: Job[Any], draft: Draft, story: Finding, where: Where, now: datetime) -> Diagnosis:
        """The likeliest causes where the kind has any; the rest says all there is to it by itself. A stage of the time
        to first token is felt in that: whose requests it is, and who sent more of them, is read off it."""
        stage = story.stage or None
        alone = Diagnosis(stage=stage, summary=story.summary + ".", causes=[])
        if not job.kind.seeks_causes or story.since is None:
            return alone
        before = Span(story.since - timedelta(seconds=context.BEFORE_S), story.since)
        during, stages, read = Span(story.since, story.at), [], None
        try:
            around = context.surroundings(self._telemetry, where, E2E.short, before, during)
            if stage is not None:
                parts = STAGES[TTFT.short]
                stages = stage_shifts(context.measured(self._telemetry, where, TTFT.short, before, during), parts)
                read = read_shift(self._telemetry, where, TTFT.short, Q_OF_STAGE, before, during)
            with self._database.read_session() as session:
                around = context.with_records(session, around, story.since, now)
                of = about(session, around)
                plausibility = learned(confirmed_causes(session))
        except Exception:
            log.exception("no causes for rule %s on pool %r", job.rule.id, job.pool)
            return alone
        draft.story = replace(story, evidence={**story.evidence, "about": of})
        moved = None if read is None else attribution(read, around.ledger)
        found = causes(around, story.since, moved, plausibility)
        summary = f"{story.summary}; {found[0]['message']}."
        return Diagnosis(
            stage=stage, summary=summary, stages=stages, causes=found, attribution=placed(moved, found, around.drafts)
        )

    def follow_up(
        self, job: Job[Any], draft: Draft, look: Look, where: Where, state: dict[str, Any], now: datetime
    ) -> None:
        """Gather what has come to light of an open alert; where it is news and may be told, write it on the draft."""
        row = job.open_alerts.get(draft.fingerprint)
        if row is None or row.state != AlertState.FIRING.value or draft.life.state is not AlertState.FIRING:
            return
        stored = row.evidence.get("told")
        told = None if stored is None else Told.load(stored)
        pending = job.state.get(PENDING, {}).get(draft.fingerprint)
        seen = Seen() if pending is None else Seen.load(pending)
        story = _story(row, look.recent, draft)
        if told is not None:
            value_s = updates.grown_to(told.value_s, look.recent, story.q)
            seen = seen.and_then(Seen(value_s, look.reach - told.reach))
        may_tell = told is None or (now - told.at).total_seconds() >= updates.UPDATE_EVERY_S
        is_due = _is_due(self._looked_at.get(draft.fingerprint), story, told, now)
        if is_due or (may_tell and told is not None and updates.kinds(told, seen)):
            self._looked_at[draft.fingerprint] = now
            try:
                chance = updates.PERHAPS_CHANCE if told is None else updates.REACHED_CHANCE
                found, nodes, _ = self._look(job, draft, story, where, now, chance)
            except Exception:
                log.exception("no second diagnosis for rule %s on pool %r", job.rule.id, job.pool)
            else:
                reach = look.reach | _reach(found) | nodes
                if told is None:  # What was told when it fired is not known: from here on it is.
                    draft.told = Told(now, story.value, reach, _cause(found))
                    return
                if _is_of_all(story) and _names(found) != _names_on(row):
                    draft.diagnosis = found
                if may_tell:
                    another = updates.another_cause(told.cause, found.causes)
                    seen = seen.and_then(Seen(None, reach - told.reach, another))
                    if changed := updates.kinds(told, seen):
                        message = str(found.causes[0]["message"]) if found.causes else ""
                        said = updates.words(told, seen, story.metric, story.q, message)
                        draft.told = updates.told_again(told, seen, now)
                        draft.news = News(tuple(changed), said, found, seen.value_s or story.value)
                        return
        if seen != Seen():
            state.setdefault(PENDING, {})[draft.fingerprint] = seen.dump()

    def forget_all_but(self, fingerprints: set[str]) -> None:
        self._looked_at = {name: at for name, at in self._looked_at.items() if name in fingerprints}

    def _look(
        self, job: Job[Any], draft: Draft, story: Finding, where: Where, now: datetime, chance: float
    ) -> tuple[Diagnosis, frozenset[str], dict[str, Any]]:
        """With what the evidence is to keep of it. From an earlier onset where the metric itself tells of one: a limit
        is missed some time after the change that makes it so, and what lies between them is no "before"."""
        onset = story.since or job.kind.onset(job, story, draft.life.breach_since or story.at, where)
        fires = Event.FIRED in draft.events
        found, nodes, of = self._look_from(onset, job, draft, story, where, now, chance, whole=fires)
        changed = None if found.attribution is None else found.attribution.since
        may_be_onset = (story.at - onset).total_seconds() >= LEAST_TICKS * WINDOW_S
        if fires and may_be_onset and changed is not None and changed.high < onset:
            onset = changed.at
            found, nodes, of = self._look_from(onset, job, draft, story, where, now, chance, whole=True)
        return found, nodes, {"about": of, ONSET: onset.isoformat()}

    def _look_from(
        self,
        onset: datetime,
        job: Job[Any],
        draft: Draft,
        story: Finding,
        where: Where,
        now: datetime,
        chance: float,
        *,
        whole: bool,
    ) -> tuple[Diagnosis, frozenset[str], dict[str, Any]]:
        """whole: of all since the onset, however long ago that is."""
        before = Span(self._usual_from(draft.fingerprint, onset), onset)
        since = onset if whole else max(onset, story.at - timedelta(seconds=AGAIN_S))
        during = Span(since, story.at)
        before_s = story.before_s
        if before_s is None:
            found = self._telemetry.histograms(Question(story.metric, before, where=where))
            before_s = found[0].total.quantile(story.q) if found and found[0].total.count else None
        only = {label: value for label in PARTS if (value := story.evidence.get(label)) is not None}
        parts_where = {**where, **only}
        measured = context.measured(self._telemetry, parts_where, story.metric, before, during)
        around = context.surroundings(self._telemetry, where, story.metric, before, during)
        # Where one bucket of prompts or one node is slower, that shows beside the others.
        read = read_shift(self._telemetry, where, story.metric, story.q, before, during)
        if only and not read.has_grown:
            read = read_shift(self._telemetry, parts_where, story.metric, story.q, before, during)
        with self._database.read_session() as session:
            around = context.with_records(session, around, onset, now)
            of = about(session, around)
            plausibility = learned(confirmed_causes(session))
        limit_s = story.threshold if job.kind.threshold_is_limit else None
        users = in_words(of) + felt(
            self._telemetry, parts_where, story.metric, before, during, story.evidence.get("effect")
        )
        shift = Shift(story.metric, story.q, before_s, story.value, onset, limit_s, story.relative_error, users)
        nodes = self._nodes(parts_where, story, during, chance)
        return diagnose(shift, measured, around, read, plausibility), nodes, of

    def _usual_from(self, fingerprint: str, onset: datetime) -> datetime:
        """Where what an onset is compared with begins: when the same had ended, where that was shortly before it."""
        earliest = onset - timedelta(seconds=context.BEFORE_S)
        ended = (
            select(AlertRow.clear_since)
            .where(
                AlertRow.fingerprint == fingerprint,
                AlertRow.state == AlertState.RESOLVED.value,
                col(AlertRow.clear_since) > earliest,
                col(AlertRow.clear_since) <= onset - timedelta(seconds=LEAST_BEFORE_S),
            )
            .order_by(col(AlertRow.id).desc())
        )
        with self._database.read_session() as session:
            return session.exec(ended).first() or earliest

    def _nodes(self, where: Where, story: Finding, during: Span, chance: float) -> frozenset[str]:
        by_node = {
            series.labels.get(NODE.label, ""): series.total
            for series in self._telemetry.histograms(Question(story.metric, during, (NODE.label,), where))
        }
        return updates.reach_of_nodes(by_node, story.threshold, story.q, chance)


def _story(row: AlertRow, recent: Sketch, draft: Draft) -> Finding:
    """An open alert as its judge would tell it now."""
    latest = draft.latest
    assert latest is not None
    metric, q = row.labels.get("metric", ""), float(row.evidence.get("q", row.labels.get("q", 0.0)))
    return replace(
        latest,
        since=datetime.fromisoformat(row.evidence[ONSET]) if ONSET in row.evidence else row.started_at,
        metric=metric,
        q=q,
        value=recent.quantile(q) if recent.count else row.value,
        threshold=row.threshold,
        before_s=row.evidence.get("before_s"),
        relative_error=recent.relative_error,
        evidence=row.evidence,
    )


def _is_due(looked: datetime | None, story: Finding, told: Told | None, now: datetime) -> bool:
    """Whether it has lasted twice as long as at the last look, or a minute has passed since that, or since it was told
    of for the first time."""
    if looked is None or story.since is None:
        return True
    every_s, since_look_s = updates.UPDATE_EVERY_S, (now - looked).total_seconds()
    may_tell_at = None if told is None else told.at + timedelta(seconds=every_s)
    if may_tell_at is not None and looked < may_tell_at <= now:
        return True
    return since_look_s >= min(max((looked - story.since).total_seconds(), WINDOW_S), every_s)


def _is_of_all(story: Finding) -> bool:
    """Whether a second diagnosis is of all since the onset, as the first was, only of more."""
    return story.since is not None and (story.at - story.since).total_seconds() <= AGAIN_S


def _names(found: Diagnosis) -> tuple[object, ...]:
    """Stage, place and likeliest cause."""
    place = None if found.attribution is None else found.attribution.place
    return found.stage, None if place is None else (place.label, place.value), _cause(found)


def _names_on(row: AlertRow) -> tuple[object, ...]:
    return () if row.diagnosis is None else _names(Diagnosis.model_validate(row.diagnosis))


def _reach(found: Diagnosis) -> frozenset[str]:
    return frozenset() if found.stage is None else frozenset({words.reach_of_stage(found.stage)})


def _cause(found: Diagnosis) -> str:
    return updates.cause_name(found.causes[0]) if found.causes else ""
