"""From findings to alerts: pure bookkeeping of lives, then one function that writes what came of them.

Guarantee: an alert's change, its ledger entry, its deliveries and the remedy it starts are in one transaction.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlmodel import Session

from controlplane import ledger
from controlplane.alerts.channels import payload
from controlplane.alerts.conditions.finding import Finding
from controlplane.alerts.lives.fingerprint import fingerprint
from controlplane.alerts.lives.machine import Event, Life, advance
from controlplane.alerts.lives.remedy_steps import add_steps
from controlplane.alerts.lives.updates import Told
from controlplane.alerts.notify import outbox
from controlplane.alerts.rules.silence import is_held
from controlplane.alerts.tables import AlertRow
from controlplane.alerts.view import alert_view
from controlplane.contract.bodies.alerts import (
    Alert,
    AlertRule,
    AlertState,
    AlertUpdate,
    Diagnosis,
    Severity,
    Silence,
    UpdateKind,
)
from controlplane.contract.bodies.remedies import RemedyStep

log = logging.getLogger(__name__)

OnFire = Callable[[Session, Alert, AlertRule, datetime], Sequence[RemedyStep]]
"""Called in the transaction in which an alert fires, and in which an update of it is written, whether or not its rule
has a remedy; returns the steps newly chosen, if any."""


@dataclass(frozen=True)
class News:
    """How an open alert has changed, to be told: in words, with a new diagnosis, and the judged quantile now."""

    kinds: tuple[UpdateKind, ...]
    summary: str
    diagnosis: Diagnosis
    value_s: float | None


@dataclass
class Draft:
    """One alert's life during a tick. `alert_id` None: it is new. `story` is the finding that tells most of it; `told`
    what receivers know after this tick, where that changes; `news` what they are to hear of an open alert; `diagnosis`
    that of an alert that fires, or, of an open one, what is known better by now. `stood`: life and value of an open
    alert before this tick."""

    fingerprint: str
    labels: dict[str, str]
    life: Life
    alert_id: int | None = None
    events: list[Event] = field(default_factory=list)
    story: Finding | None = None
    latest: Finding | None = None
    diagnosis: Diagnosis | None = None
    told: Told | None = None
    news: News | None = None
    stood: tuple[Life, float | None] | None = None

    @property
    def differs(self) -> bool:
        """Whether there is anything to write: of an alert that stays as it is there is not."""
        if self.stood is None or self.events or self.diagnosis is not None:
            return True
        if self.told is not None or self.news is not None:
            return True
        life, value = self.stood
        seen = None if self.latest is None else self.latest.value
        return self.life != life or (seen is not None and seen != value)


def life_of(row: AlertRow) -> Life:
    return Life(AlertState(row.state), row.breach_since, row.clear_since, row.hold_since)


def follow(rule_id: int, open_alerts: Mapping[str, AlertRow], findings: Iterable[Finding]) -> list[Draft]:
    """Run the machine over findings in order; only lives that exist, or came to be, are returned."""
    current: dict[str, Draft] = {}
    done: list[Draft] = []
    for finding in findings:
        print_ = fingerprint(rule_id, finding.labels)
        draft = current.get(print_)
        if draft is None:
            row = open_alerts.get(print_)
            if any(old.fingerprint == print_ for old in done):
                row = None
            draft = Draft(print_, finding.labels, Life()) if row is None else _open(row, finding)
            current[print_] = draft
        draft.life, event = advance(draft.life, finding.reading, finding.at, finding.patience, finding.since)
        draft.latest = finding
        if event is not None:
            draft.events.append(event)
            if event in (Event.OPENED, Event.FIRED):
                draft.story = _fuller(draft.story, finding)
        if draft.life.state is AlertState.RESOLVED:
            done.append(current.pop(print_))
    return done + [draft for draft in current.values() if draft.life.state is not None]


def _open(row: AlertRow, finding: Finding) -> Draft:
    life = life_of(row)
    return Draft(row.fingerprint, finding.labels, life, row.id, stood=(life, row.value))


def _fuller(old: Finding | None, new: Finding) -> Finding:
    """The newer finding, with the onset of the older where it does not know its own."""
    return new if old is None or new.since is not None else replace(new, since=old.since)


def _severity(rule: AlertRule, story: Finding) -> Severity:
    """What the finding says, and never more than the rule."""
    return Severity.TICKET if Severity.TICKET in (rule.severity, story.severity) else Severity.PAGE


@dataclass(frozen=True)
class Scribe:
    """Writes drafts. `now` is the wall clock: what stands in fired_at, resolved_at and the ledger."""

    now: datetime
    external_url: str
    on_fire: OnFire | None

    def write(self, session: Session, rule: AlertRule, draft: Draft, silences: Sequence[Silence]) -> None:
        row = None if draft.alert_id is None else session.get(AlertRow, draft.alert_id)
        if Event.DROPPED in draft.events and Event.FIRED not in draft.events:
            if row is not None:
                session.delete(row)
            return
        if row is None:
            row = self._new(rule, draft)
        assert draft.life.state is not None and draft.life.breach_since is not None
        row.state = draft.life.state.value
        row.breach_since, row.clear_since = draft.life.breach_since, draft.life.clear_since
        row.hold_since = draft.life.hold_since
        if draft.latest is not None and draft.latest.value is not None:
            row.value = draft.latest.value
        session.add(row)
        session.flush()
        if Event.FIRED in draft.events:
            self._fire(session, rule, row, draft, silences)
        elif draft.told is not None:
            row.evidence = {**row.evidence, "told": draft.told.dump()}
            session.add(row)
        if draft.news is not None and Event.RESOLVED not in draft.events:
            self._update(session, rule, row, draft.news, silences)
        elif draft.diagnosis is not None and Event.FIRED not in draft.events:
            self._correct(session, rule, row, draft.diagnosis)
        if Event.RESOLVED in draft.events:
            self._resolve(session, row, draft.latest)

    def deliver_unsilenced(self, session: Session, row: AlertRow, silences: Sequence[Silence]) -> None:
        """A firing alert whose silence has ended is told of now: as it is by now, with what has changed meanwhile."""
        if row.silenced and not is_held(row, silences, self.now):
            row.silenced = False
            session.add(row)
            self._deliver(session, row)

    def _deliver(self, session: Session, row: AlertRow) -> int:
        """Tell of a firing alert, under a key of its own where it was told of before; returns to how many."""
        view = alert_view(row)
        key = payload.update_key(view) if outbox.is_told(session, view) else None
        return outbox.enqueue_firing(session, view, self.now, self.external_url, key)

    def _new(self, rule: AlertRule, draft: Draft) -> AlertRow:
        story = draft.story or draft.latest
        assert story is not None and draft.life.breach_since is not None
        return AlertRow(
            fingerprint=draft.fingerprint,
            rule_id=rule.id,
            rule=rule.name,
            kind=rule.condition.kind,
            pool=draft.labels.get("pool", ""),
            state=AlertState.PENDING.value,
            severity=_severity(rule, story).value,
            labels=draft.labels,
            summary=story.summary,
            started_at=draft.life.breach_since,
            breach_since=draft.life.breach_since,
            value=story.value,
            threshold=story.threshold,
            evidence=story.evidence,
        )

    def _fire(
        self, session: Session, rule: AlertRule, row: AlertRow, draft: Draft, silences: Sequence[Silence]
    ) -> None:
        story = draft.story
        assert story is not None and row.id is not None
        row.fired_at = self.now
        row.value, row.threshold, row.evidence = story.value, story.threshold, story.evidence
        row.severity = _severity(rule, story).value
        if story.before_s is not None:
            row.evidence = {**row.evidence, "before_s": story.before_s}
        if draft.told is not None:
            row.evidence = {**row.evidence, "told": draft.told.dump()}
        row.summary = story.summary
        if draft.diagnosis is not None:
            row.diagnosis = draft.diagnosis.model_dump(mode="json")
            row.summary = draft.diagnosis.summary
        row.silenced = is_held(row, silences, self.now)
        session.add(row)
        session.flush()
        self._remedy(session, rule, row)
        told = 0 if row.silenced else outbox.enqueue_firing(session, alert_view(row), self.now, self.external_url)
        self._note(
            session,
            row,
            "alert.fired",
            row.summary,
            rule=rule.name,
            value_s=row.value,
            threshold_s=row.threshold,
            started_at=row.started_at.isoformat(),
            error_rate=row.evidence.get("error_rate"),
            diagnosis=row.diagnosis,
            destinations=told,
            silenced=row.silenced,
            study_id=row.study_id,
            remedies=row.remedies,
        )

    def _update(
        self, session: Session, rule: AlertRule, row: AlertRow, news: News, silences: Sequence[Silence]
    ) -> None:
        """Write an open alert's change: the new sentence stands on the alert, the old one stays with the update."""
        said = f"{news.summary}. Before: {row.summary}"
        update = AlertUpdate(time=self.now, kinds=list(news.kinds), summary=said, value=news.value_s)
        row.updates = [*row.updates, update.model_dump(mode="json")]
        row.value = news.value_s
        row.diagnosis, row.summary = news.diagnosis.model_dump(mode="json"), news.diagnosis.summary
        # One that was told of and is silenced since holds its news back like one that never was told of.
        row.silenced = is_held(row, silences, self.now)
        session.add(row)
        session.flush()
        self._remedy(session, rule, row)
        told = 0 if row.silenced else self._deliver(session, row)
        self._note(
            session,
            row,
            "alert.updated",
            said,
            rule=rule.name,
            kinds=[kind.value for kind in news.kinds],
            value_s=row.value,
            diagnosis=row.diagnosis,
            destinations=told,
            silenced=row.silenced,
            remedies=row.remedies,
        )

    def _correct(self, session: Session, rule: AlertRule, row: AlertRow, found: Diagnosis) -> None:
        """Write what is known better of an open alert, of which nobody needs to hear: what was told stands in the
        ledger, by the alert's firing."""
        row.diagnosis, row.summary = found.model_dump(mode="json"), found.summary
        session.add(row)
        session.flush()
        self._note(
            session,
            row,
            "alert.corrected",
            row.summary,
            rule=rule.name,
            diagnosis=row.diagnosis,
        )

    def _note(self, session: Session, row: AlertRow, kind: str, message: str, *, rule: str, **told: Any) -> None:
        """What the ledger keeps of the alert."""
        ledger.append(
            session,
            now=self.now,
            actor=ledger.SERVICE,
            kind=kind,
            subject=f"alert/{row.id}",
            message=message,
            rule=rule,
            labels=row.labels,
            fingerprint=row.fingerprint,
            **told,
        )

    def _remedy(self, session: Session, rule: AlertRule, row: AlertRow) -> None:
        """Ask what is to be done, and write it on the alert. A failure of the remedy never stops the alert."""
        if self.on_fire is None:
            return
        try:
            with session.begin_nested():
                steps = list(self.on_fire(session, alert_view(row), rule, self.now))
        except Exception as error:
            log.exception("the remedy of alert %s could not be chosen", row.id)
            row.evidence = {**row.evidence, "remedy_error": f"{type(error).__name__}: {error}"[:300]}
        else:
            add_steps(row, steps)
        session.add(row)
        session.flush()

    def _resolve(self, session: Session, row: AlertRow, latest: Finding | None) -> None:
        row.resolved_at = self.now
        because = None if latest is None else latest.evidence.get("resolved_because")
        if because is not None and latest is not None:
            row.evidence = {**row.evidence, **latest.evidence}
        session.add(row)
        session.flush()
        outbox.enqueue_resolved(session, alert_view(row), self.now, self.external_url)
        began = row.fired_at or row.started_at
        why = "" if because is None else f", for {because}"
        self._note(
            session,
            row,
            "alert.resolved",
            f"resolved after {(self.now - began).total_seconds():.0f} s{why}: {row.summary}",
            rule=row.rule,
        )
