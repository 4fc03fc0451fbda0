"""Evaluates every enabled rule, a little behind the newest data.

Guarantees: each window is judged once per rule and pool, whether ticks are missed, repeated or run in two replicas
(the position is moved in the transaction that writes what was found, and only from where it was read); a restart
keeps the evidence; telemetry is never read inside a write transaction; a rule that fails does not stop the others.

What many rules and pools want to know is asked for once (see `histories`, `pool_totals`, `watched_nodes`), and what
they found is written at once.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlmodel import col, select

from controlplane.alerts.conditions import judges, regression
from controlplane.alerts.conditions.config_failure import judge_config_failed
from controlplane.alerts.conditions.detector import Detector
from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.learner import GUARD_MAX_S, SUSPICION
from controlplane.alerts.conditions.pool_endings import PoolEndings
from controlplane.alerts.conditions.requests_failed import GUARD_S, LostShare, judge_requests_failed
from controlplane.alerts.conditions.telemetry_loss import judge_telemetry_lost, losses_of
from controlplane.alerts.lives.baseline_news import tell_move
from controlplane.alerts.lives.fingerprint import fingerprint
from controlplane.alerts.lives.lifecycle import Draft, OnFire, Scribe, follow
from controlplane.alerts.lives.machine import Event
from controlplane.alerts.lives.storyteller import RECENT_S, Look, Storyteller
from controlplane.alerts.lives.tick import OF_THE_FLEET, Job, Snapshot, job_of, read, serving, silences_now
from controlplane.alerts.tables import AlertRow, AlertRuleRow, DetectorStateRow
from controlplane.alerts.windows.histories import Histories, Wanted
from controlplane.alerts.windows.history import History, Where, instant, merged
from controlplane.alerts.windows.pool_record import Move
from controlplane.alerts.windows.pool_totals import PoolTotals
from controlplane.alerts.windows.watched_nodes import WatchedNodes
from controlplane.contract.bodies.alerts import (
    AbsoluteCondition,
    AlertRule,
    AlertState,
    Condition,
    ConfigFailedCondition,
    DriftCondition,
    RegressionCondition,
    RequestsFailedCondition,
    TelemetryLostCondition,
)
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.errors import NotFound
from controlplane.contract.metrics import E2E, NODE, POOL, TTFT, WINDOW_S
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.telemetry import Question, Span, TelemetryReader

log = logging.getLogger(__name__)

LAG_S = 10.0
"""Evaluation runs two windows behind the newest data, so that every node's report has come in."""
QUIET_S = 60.0
"""With no newer data for so long, time passes all the same: open alerts must be able to end."""
CATCH_UP_S = 3600.0
ABSOLUTE_CATCH_UP = 12
POOL_MEMORY_S, POOL_LATE_S = 600.0, 60.0
"""A pool with traffic in the last ten minutes is judged. Each tick reads a minute again, for late reports."""
FOR_EVER_S = 1e12
FAILED = "rule %s (%s) could not be evaluated on pool %r"


class AlertEvaluator:
    """Call `tick` about every five seconds, from one thread."""

    def __init__(
        self,
        database: Database,
        telemetry: TelemetryReader,
        on_fire: OnFire | None = None,
        *,
        lag_s: float = LAG_S,
        external_url: str = "",
        finest_kept_s: float = FOR_EVER_S,
    ) -> None:
        """finest_kept_s: how long telemetry keeps windows of `WINDOW_S`; a baseline is not read from wider ones."""
        self._database = database
        self._telemetry = telemetry
        self._on_fire = on_fire
        self._lag_s = lag_s
        self._external_url = external_url.rstrip("/")
        self._finest_kept_s = finest_kept_s
        self._traffic: dict[str, datetime] = {}  # Pool to when it last had any.
        self._pools_read_to: datetime | None = None
        self._histories = Histories(telemetry)
        self._watched = WatchedNodes()
        self._stories = Storyteller(database, telemetry)
        self._detectors: dict[tuple[int, str], tuple[int, datetime | None, Detector]] = {}

    def tick(self, now: datetime) -> None:
        """Judge what is new since the tick before."""
        end = self._end(now)
        with self._database.read_session() as session:
            seen = read(session, now, self._watched)
        if end is not None:
            seen.pools = self._pools(seen, end)
            self._extend_histories(seen, end)
        material = Material(
            PoolTotals(self._telemetry, self._wheres(seen, AbsoluteCondition)),
            PoolEndings(self._telemetry, self._wheres(seen, RequestsFailedCondition)),
        )
        outcomes: list[Outcome] = []
        for rule, version in seen.rules:
            for pool in self._pools_of(rule, seen):
                job = job_of(rule, version, pool, seen)
                try:
                    outcomes += self._judged(job, seen, material, end, now)
                except Exception:
                    self._detectors.pop((rule.id, pool), None)
                    log.exception(FAILED, rule.id, rule.name, pool)
        self._write_all(outcomes, now)
        self._stories.forget_all_but({row.fingerprint for row in seen.alerts})
        self._deliver_unsilenced(seen, now)

    # -- what to judge -------------------------------------------------------------------------------------------------

    def _end(self, now: datetime) -> datetime | None:
        """The end of the newest window to judge; None before the first data."""
        latest = self._telemetry.latest()
        if latest is None:
            return None
        newest = max(min(latest, now), now - timedelta(seconds=QUIET_S)).timestamp() - self._lag_s
        return instant(math.floor(newest / WINDOW_S) * WINDOW_S)

    def _pools(self, seen: Snapshot, end: datetime) -> set[str]:
        """Pools with recent traffic, with an open alert, or with serving nodes; none that only holds trial nodes."""
        oldest = end - timedelta(seconds=POOL_MEMORY_S)
        start = max(oldest, self._pools_read_to - timedelta(seconds=POOL_LATE_S)) if self._pools_read_to else oldest
        for metric in (E2E.short, TTFT.short):
            for series in self._telemetry.counts(Question(metric, Span(start, end), (POOL.label,))):
                self._traffic[series.labels.get(POOL.label, "")] = end
        self._pools_read_to = end
        self._traffic = {pool: at for pool, at in self._traffic.items() if at >= oldest}
        found = {row.pool for row in seen.alerts} | set(self._traffic)
        serving = {node.pool for node in seen.nodes if node.role is NodeRole.SERVING}
        trial = {node.pool for node in seen.nodes} - serving
        return (found | serving) - trial - {""}

    def _pools_of(self, rule: AlertRule, seen: Snapshot) -> list[str]:
        if isinstance(rule.condition, OF_THE_FLEET):
            return [rule.pool or ""]
        return sorted(seen.pools if rule.pool is None else seen.pools & {rule.pool})

    def _wheres(self, seen: Snapshot, kind: type[Condition]) -> dict[str, Where]:
        """The filters of the pools that rules of this kind look at."""
        pools = {
            pool for rule, _ in seen.rules if isinstance(rule.condition, kind) for pool in self._pools_of(rule, seen)
        }
        return {pool: seen.where(pool) for pool in pools}

    def _extend_histories(self, seen: Snapshot, end: datetime) -> None:
        """Bring the windows of each pool that a regression rule looks at up to `end`."""
        conditions = [
            (rule, rule.condition) for rule, _ in seen.rules if isinstance(rule.condition, RegressionCondition)
        ]
        metrics = tuple(sorted({metric for _, condition in conditions for metric in condition.metrics}))
        wanted = {}
        for pool, where in self._wheres(seen, RegressionCondition).items():
            spans_s = [condition.baseline_s for rule, condition in conditions if rule.pool in (None, pool)]
            first_s = min(end.timestamp(), seen.record(pool).begun_s()) - max(spans_s) - GUARD_MAX_S - QUIET_S
            first_s = math.floor(first_s / WINDOW_S) * WINDOW_S
            readable_s = max(first_s, end.timestamp() - self._finest_kept_s // WINDOW_S * WINDOW_S)
            wanted[pool] = Wanted(where, first_s, readable_s, seen.judged_nodes(pool))
        self._histories.extend(wanted, metrics, end.timestamp())

    # -- one rule on one pool ------------------------------------------------------------------------------------------

    def _judged(
        self, job: Job, seen: Snapshot, material: "Material", end: datetime | None, now: datetime
    ) -> list["Outcome"]:
        """What is to be written of one job; nothing where nothing is new."""
        condition = job.rule.condition
        state: dict[str, Any] = {}
        moved: list[tuple[str, Move]] = []
        if isinstance(condition, OF_THE_FLEET):
            end = now
            findings, state = self._of_the_fleet(condition, job, seen, now)
            findings = _that_matter(job, findings, now)
        elif end is None or (job.position is not None and job.position >= end):
            return []
        elif isinstance(condition, RegressionCondition):
            history = self._histories.get(job.pool)
            if history is None:
                return []
            findings, state, moved = self._regression(condition, history, job, seen, end)
        elif isinstance(condition, RequestsFailedCondition):
            findings, state = self._requests_failed(condition, material.endings, job, seen, end)
        else:
            ends = _window_ends(job.position, end)
            findings = judges.judge_absolute(condition, material.totals, job.pool, ends, self._firing(job))
        drafts = follow(job.rule.id, job.open_alerts, findings)
        for draft in drafts:
            where = seen.where(job.pool)
            if Event.FIRED in draft.events and draft.story is not None:
                self._stories.tell(job, draft, where, self._suspected(job, draft), now)
            elif isinstance(condition, AbsoluteCondition | RegressionCondition) and end is not None:
                self._stories.follow_up(job, draft, self._look(job, draft, material.totals, end), where, state, now)
        if isinstance(condition, OF_THE_FLEET) and not drafts and job.position is not None and state == job.state:
            return []
        return [Outcome(job, end, state, drafts, moved)]

    def _of_the_fleet(
        self,
        condition: DriftCondition | ConfigFailedCondition | TelemetryLostCondition,
        job: Job,
        seen: Snapshot,
        now: datetime,
    ) -> tuple[list[Finding], dict[str, Any]]:
        # Of thousands of nodes hardly any has anything to it: the others are not looked at one by one.
        nodes, concerned = serving(job, seen), {row.labels.get(NODE.label) for row in job.open_alerts.values()}
        if isinstance(condition, DriftCondition):
            nodes = [node for node in nodes if node.drift or node.node in concerned]
            return judges.judge_drift(condition, nodes, now, self._revision), {}
        for known in ("told", "open"):
            concerned |= set(job.state.get(known, {}))
        if isinstance(condition, ConfigFailedCondition):
            concerned |= {failure.node for failure in seen.configs.failures}
            nodes = [node for node in nodes if node.node in concerned]
            return judge_config_failed(condition, seen.configs, job.state, nodes, now, self._firing(job))
        losses = losses_of(self._telemetry, now)
        nodes = [node for node in nodes if node.node in losses or node.node in concerned]
        return judge_telemetry_lost(condition, losses, job.state, nodes, now)

    def _revision(self, number: int) -> Revision | None:
        with self._database.read_session() as session:
            try:
                return fleet.revision(session, number)
            except NotFound:
                return None

    def _firing(self, job: Job) -> judges.Open:
        def firing(labels: dict[str, str]) -> bool:
            row = job.open_alerts.get(fingerprint(job.rule.id, labels))
            return row is not None and row.state == AlertState.FIRING.value

        return firing

    def _regression(
        self, condition: RegressionCondition, history: History, job: Job, seen: Snapshot, end: datetime
    ) -> tuple[list[Finding], dict[str, Any], list[tuple[str, Move]]]:
        """Findings, the state after them, and the metrics whose baseline moved for an accepted rollout."""
        key = (job.rule.id, job.pool)
        kept = self._detectors.get(key)
        if kept is not None and kept[:2] == (job.version, job.position):
            detector = kept[2]
        else:
            detector = Detector(condition)
            detector.restore(job.state)
        detector.pools = len(self._pools_of(job.rule, seen))
        start = job.position or end - timedelta(seconds=WINDOW_S)
        start = max(start, end - timedelta(seconds=CATCH_UP_S))
        record, firing = seen.record(job.pool), self._firing(job)
        findings = regression.judge_regression(
            detector, history, job.pool, start.timestamp(), end.timestamp(), record, firing
        )
        self._detectors[key] = (job.version, end, detector)
        moved, detector.moved = detector.moved, []
        return findings, detector.state(), moved

    def _requests_failed(
        self, condition: RequestsFailedCondition, endings: PoolEndings, job: Job, seen: Snapshot, end: datetime
    ) -> tuple[list[Finding], dict[str, Any]]:
        oldest = end - timedelta(seconds=CATCH_UP_S)
        start = end - timedelta(seconds=WINDOW_S) if job.position is None else max(job.position, oldest)
        if job.state:
            known = LostShare.load(condition, job.state)
        else:  # The past lies there when a rule begins.
            until = start - timedelta(seconds=GUARD_S)
            since = until - timedelta(seconds=condition.baseline_s)
            known = LostShare(condition, *endings.before(job.pool, since, until))
        windows = endings.of(job.pool, start, end)
        findings = judge_requests_failed(known, windows, job.pool, len(self._pools_of(job.rule, seen)), end)
        return findings, known.dump()

    # -- what is told of an open alert ---------------------------------------------------------------------------------

    def _look(self, job: Job, draft: Draft, totals: PoolTotals, end: datetime) -> Look:
        """The newest requests of an open alert, and how far it reaches, as its judge knows it."""
        metric, condition = draft.labels.get("metric", ""), job.rule.condition
        if isinstance(condition, AbsoluteCondition):
            start = end - timedelta(seconds=condition.window_s)
            return Look(totals.of(job.pool, metric, start, end), frozenset())
        row = job.open_alerts.get(draft.fingerprint)
        history = self._histories.get(job.pool)
        since_s = end.timestamp() - RECENT_S
        windows = [] if history is None else [one for one in history.windows if one.start_s >= since_s]
        bucket = None if row is None else row.evidence.get("prompt_bucket")
        return Look(merged(windows, metric, bucket), self._reach(job, metric))

    def _reach(self, job: Job, metric: str, part: float = 1.0) -> frozenset[str]:
        """What of a metric is in alarm, in words; from a part of the alarm's evidence on where one is given."""
        kept = self._detectors.get((job.rule.id, job.pool))
        return frozenset() if kept is None else regression.reach(kept[2], metric, part)

    def _suspected(self, job: Job, draft: Draft) -> frozenset[str]:
        """What may be slow already when an alert fires: it is told with it, and is no news a minute later."""
        return self._reach(job, draft.labels.get("metric", ""), SUSPICION)

    # -- writing -------------------------------------------------------------------------------------------------------

    def _write_all(self, outcomes: Sequence["Outcome"], now: datetime) -> None:
        """Everything in one transaction; where that fails, each by itself."""
        if not outcomes:
            return
        try:
            self._write(outcomes, now)
        except Exception:
            if len(outcomes) == 1:
                job = outcomes[0].job
                self._detectors.pop((job.rule.id, job.pool), None)
                log.exception(FAILED, job.rule.id, job.rule.name, job.pool)
                return
            log.warning("what %d rules found could not be written together, each is tried alone", len(outcomes))
            for outcome in outcomes:
                self._write_all([outcome], now)

    def _write(self, outcomes: Sequence["Outcome"], now: datetime) -> None:
        ids = {outcome.job.rule.id for outcome in outcomes}
        with self._database.session() as session:
            rules = select(AlertRuleRow).where(col(AlertRuleRow.id).in_(ids)).order_by(col(AlertRuleRow.id))
            rule_of = {row.id: row for row in session.exec(rules.with_for_update())}
            states = select(DetectorStateRow).where(col(DetectorStateRow.rule_id).in_(ids))
            states = states.order_by(col(DetectorStateRow.rule_id), col(DetectorStateRow.pool))
            state_of = {(row.rule_id, row.pool): row for row in session.exec(states.with_for_update())}
            silences = silences_now(session) if any(outcome.drafts for outcome in outcomes) else []
            scribe = Scribe(now, self._external_url, self._on_fire)
            for job, end, state, drafts, moved in outcomes:
                rule, row = rule_of.get(job.rule.id), state_of.get((job.rule.id, job.pool))
                position = None if row is None or row.version != job.version else row.position
                if rule is None or not rule.enabled or rule.version != job.version or position != job.position:
                    self._detectors.pop((job.rule.id, job.pool), None)
                    continue  # Somebody changed the rule or was faster; what was found here is theirs to find.
                if row is None:
                    row = DetectorStateRow(rule_id=job.rule.id, pool=job.pool, version=job.version, position=end)
                row.version, row.position, row.state = job.version, end, state
                session.add(row)
                for metric, move in moved:
                    tell_move(session, job.rule.id, job.pool, metric, move, now)
                for draft in drafts:
                    scribe.write(session, job.rule, draft, silences)

    def _deliver_unsilenced(self, seen: Snapshot, now: datetime) -> None:
        held = [row.id for row in seen.alerts if row.silenced and row.state == AlertState.FIRING.value]
        if not held:
            return
        with self._database.session() as session:
            silences = silences_now(session)
            scribe = Scribe(now, self._external_url, None)
            for alert_id in held:
                row = session.get(AlertRow, alert_id, with_for_update=True)
                if row is not None and row.state == AlertState.FIRING.value:
                    scribe.deliver_unsilenced(session, row, silences)


class Material(NamedTuple):
    """What rules on a pool's totals read, for one tick."""

    totals: PoolTotals
    endings: PoolEndings


class Outcome(NamedTuple):
    """What came of one job: the position and the state after it, and the lives of its alerts."""

    job: Job
    end: datetime
    state: dict[str, Any]
    drafts: Sequence[Draft]
    moved: Sequence[tuple[str, Move]] = ()


def _that_matter(job: Job, findings: Sequence[Finding], now: datetime) -> list[Finding]:
    """Of a finding for each node those that tell of a breach or of an open alert; and the end of what is open of nodes
    that are no longer there, or serve no longer."""
    is_open = {_same(row.labels): row for row in job.open_alerts.values()}
    if not is_open:
        return [finding for finding in findings if finding.reading is Reading.BREACH]
    there = {_same(finding.labels) for finding in findings}
    kept = [finding for finding in findings if finding.reading is Reading.BREACH or _same(finding.labels) in is_open]
    return kept + [Finding(row.labels, now, Reading.CLEAR) for labels, row in is_open.items() if labels not in there]


def _same(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


def _window_ends(position: datetime | None, end: datetime) -> list[datetime]:
    """The window ends after `position` up to `end`, oldest first; of a long absence only the last few."""
    missed = 1 if position is None else round((end - position).total_seconds() / WINDOW_S)
    count = min(max(missed, 1), ABSOLUTE_CATCH_UP)
    return [end - timedelta(seconds=WINDOW_S * place) for place in reversed(range(count))]
