"""Evaluates every enabled rule, a little behind the newest data; what its kind of condition says is the kind's affair.

Guarantees: each window is judged once per rule and pool, whether ticks are missed, repeated or run in two replicas
(the position is moved in the transaction that writes what was found, and only from where it was read); a restart
keeps the evidence; telemetry is never read inside a write transaction; a rule that fails does not stop the others, and
is told (`failing`).

What many rules and pools want to know is asked for once (see `kind`, `watched_nodes`), and what they found is written
together, in a few transactions that each are short.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic import BaseModel
from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.alerts.conditions import KINDS
from controlplane.alerts.conditions.kind import Findings, Job, Kind, RolloutsWaiting, Scope, Snapshot, Sources
from controlplane.alerts.lives.judged import judged
from controlplane.alerts.lives.lifecycle import Draft, OnFire, Scribe
from controlplane.alerts.lives.machine import Event
from controlplane.alerts.lives.storyteller import Storyteller
from controlplane.alerts.rules.inhibition import holding_now
from controlplane.alerts.rules.silence import is_held
from controlplane.alerts.store import OPEN_STATES
from controlplane.alerts.tables import AlertRow, AlertRuleRow, DetectorStateRow
from controlplane.alerts.view import rule_view
from controlplane.alerts.windows.history import instant
from controlplane.alerts.windows.watched_nodes import WatchedNodes
from controlplane.contract.bodies.alerts import OURS, AlertRule, AlertState
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.metrics import E2E, POOL, TTFT, WINDOW_S
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span, TelemetryReader

log = logging.getLogger(__name__)

LAG_S = 10.0
"""Evaluation runs two windows behind the newest data, so that every node's report has come in."""
QUIET_S = 60.0
"""With no newer data for so long, time passes all the same: open alerts must be able to end."""
POOL_MEMORY_S, POOL_LATE_S = 600.0, 60.0
"""A pool with traffic in the last ten minutes is judged. Each tick reads a minute again, for late reports."""
FOR_EVER_S = 1e12
DRAFTS_AT_ONCE = 50
"""Changes of alerts in one transaction: each is told to every destination, and nobody else writes meanwhile."""
FAILED = "rule %s (%s) could not be evaluated on pool %r"


class AlertEvaluator:
    """Call `tick` about every five seconds, from one thread. `failing`: rules that the last one could not judge."""

    def __init__(
        self,
        database: Database,
        telemetry: TelemetryReader,
        on_fire: OnFire | None = None,
        *,
        lag_s: float = LAG_S,
        external_url: str = "",
        finest_kept_s: float = FOR_EVER_S,
        rollouts: RolloutsWaiting | None = None,
    ) -> None:
        """finest_kept_s: how long telemetry keeps windows of `WINDOW_S`; a baseline is not read from wider ones.
        rollouts: as of `Sources`."""
        self._database = database
        self._telemetry = telemetry
        self._on_fire = on_fire
        self._lag_s = lag_s
        self._external_url = external_url.rstrip("/")
        sources = Sources(database, telemetry, finest_kept_s, rollouts=rollouts)
        self._kinds = {condition: kind(sources) for condition, kind in KINDS.items()}
        self._traffic: dict[str, datetime] = {}  # Pool to when it last had any.
        self._pools_read_to: datetime | None = None
        self._watched = WatchedNodes()
        self._stories = Storyteller(database, telemetry)
        self.failing: list[str] = []

    def tick(self, now: datetime) -> None:
        """Judge what is new since the tick before."""
        self.failing.clear()
        end = self._end(now)
        with self._database.read_session() as session:
            seen = read(session, self._watched)
            for condition, kind in self._kinds.items():
                kind.read(session, [rule.condition for rule, _ in seen.rules if type(rule.condition) is condition], now)
        if end is not None:
            seen.pools = self._pools(seen, end)
        jobs = jobs_of(seen, self._kinds)
        if end is not None:
            for kind in self._kinds.values():
                kind.prepare([job for job in jobs if job.kind is kind], seen, end)
        outcomes: list[Outcome] = []
        for job in jobs:
            try:
                outcomes += self._judged(job, seen, end, now)
            except Exception:
                log.exception(FAILED, job.rule.id, job.rule.name, job.pool)
                self._give_up(job)
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

    # -- one rule on one pool ------------------------------------------------------------------------------------------

    def _judged(self, job: Job[Any], seen: Snapshot, end: datetime | None, now: datetime) -> list["Outcome"]:
        """What is to be written of one job; nothing where nothing is new."""
        of_fleet = job.kind.scope is Scope.FLEET
        until = now if of_fleet or end is None else end
        result = judged(job, seen, until, now)
        if result is None:
            return []
        findings, drafts = result
        for draft in drafts:
            where = seen.where(job.pool)
            if Event.FIRED in draft.events and draft.story is not None:
                self._stories.tell(job, draft, where, job.kind.suspected(job, draft.labels), now)
            elif (look := job.kind.look(job, draft.labels, until)) is not None:
                self._stories.follow_up(job, draft, look, where, findings.state, now)
        if of_fleet and not drafts and job.position is not None and findings.state == job.state:
            return []
        return [Outcome(job, until, findings, drafts)]

    def _give_up(self, job: Job[Any]) -> None:
        """Until the next tick."""
        job.kind.forget(job)
        self.failing.append(f"{job.rule.name} on {job.pool or 'the fleet'}")

    # -- writing -------------------------------------------------------------------------------------------------------

    def _write_all(self, outcomes: Sequence["Outcome"], now: datetime) -> None:
        failed: list[Job[Any]] = []
        for part in parts_of(outcomes):
            wanted = [outcome for outcome in part if outcome.job not in failed]
            failed += self._write_or_give_up(wanted, now) if wanted else ()

    def _write_or_give_up(self, outcomes: Sequence["Outcome"], now: datetime) -> list[Job[Any]]:
        """All in one transaction; where that fails, each by itself. Returns the jobs of those that cannot be."""
        try:
            self._write(outcomes, now)
        except Exception:
            if len(outcomes) == 1:
                job = outcomes[0].job
                log.exception(FAILED, job.rule.id, job.rule.name, job.pool)
                self._give_up(job)
                return [job]
            log.warning("what %d rules found could not be written together, each is tried alone", len(outcomes))
            return [job for outcome in outcomes for job in self._write_or_give_up([outcome], now)]
        return []

    def _write(self, outcomes: Sequence["Outcome"], now: datetime) -> None:
        ids = {outcome.job.rule.id for outcome in outcomes}
        with self._database.session() as session:
            rules = select(AlertRuleRow).where(col(AlertRuleRow.id).in_(ids)).order_by(col(AlertRuleRow.id))
            rule_of = {row.id: row for row in session.exec(rules.with_for_update())}
            states = select(DetectorStateRow).where(col(DetectorStateRow.rule_id).in_(ids))
            states = states.order_by(col(DetectorStateRow.rule_id), col(DetectorStateRow.pool))
            state_of = {(row.rule_id, row.pool): row for row in session.exec(states.with_for_update())}
            silences = holding_now(session, now) if any(outcome.drafts for outcome in outcomes) else []
            scribe = Scribe(now, self._external_url, self._on_fire)
            for job, end, findings, drafts, more_follow in outcomes:
                rule, row = rule_of.get(job.rule.id), state_of.get((job.rule.id, job.pool))
                position = None if row is None or row.version != job.version else row.position
                if rule is None or not rule.enabled or rule.version != job.version or position != job.position:
                    job.kind.forget(job)
                    continue  # Somebody changed the rule or was faster; what was found here is theirs to find.
                for draft in drafts:
                    scribe.write(session, job.rule, draft, silences)
                if more_follow:
                    continue
                if row is None:
                    row = DetectorStateRow(rule_id=job.rule.id, pool=job.pool, version=job.version, position=end)
                row.version, row.position, row.state = job.version, end, findings.state
                session.add(row)
                for entry in findings.entries:
                    ledger.append(session, now=now, actor=ledger.SERVICE, subject=f"alert-rule/{job.rule.id}", **entry)

    def _deliver_unsilenced(self, seen: Snapshot, now: datetime) -> None:
        """Most of what is held back stays so, tick after tick: that is seen without a lock."""
        held = [row for row in seen.alerts if row.silenced and row.state == AlertState.FIRING.value]
        if not held:
            return
        with self._database.read_session() as session:
            silences = holding_now(session, now)
        freed = [row.id for row in held if not is_held(row, silences, now)]
        if not freed:
            return
        with self._database.session() as session:
            silences = holding_now(session, now)
            scribe = Scribe(now, self._external_url, None)
            for alert_id in freed:
                row = session.get(AlertRow, alert_id, with_for_update=True)
                if row is not None and row.state == AlertState.FIRING.value:
                    scribe.deliver_unsilenced(session, row, silences)


class Outcome(NamedTuple):
    """What came of one job: the position after it, and the lives of its alerts."""

    job: Job[Any]
    end: datetime
    findings: Findings
    drafts: Sequence[Draft]
    more_follow: bool = False
    """Whether the rest of the job's drafts, and its position, come with a later transaction."""


def parts_of(outcomes: Iterable[Outcome]) -> Iterator[list[Outcome]]:
    """What is written together: no transaction writes many more than `DRAFTS_AT_ONCE` drafts, so that nobody waits long
    for one.

    Of a job that has more the last part moves its position and tells what has ended: should the service die in between,
    the job is judged again, and finds what was written as it is, still open.
    """
    part: list[Outcome] = []
    room = DRAFTS_AT_ONCE
    for outcome in outcomes:
        drafts = [draft for draft in outcome.drafts if draft.differs]
        ended = {draft.fingerprint for draft in drafts if Event.RESOLVED in draft.events}
        last = [draft for draft in drafts if draft.fingerprint in ended]
        open_ = [draft for draft in drafts if draft.fingerprint not in ended]
        while len(open_) > room:
            yield [*part, outcome._replace(drafts=open_[:room], more_follow=True)]
            part, open_, room = [], open_[room:], DRAFTS_AT_ONCE
        part.append(outcome._replace(drafts=[*open_, *last]))
        room -= len(open_) + len(last)
        if room <= 0:
            yield part
            part, room = [], DRAFTS_AT_ONCE
    if part:
        yield part


def read(session: Session, watched: WatchedNodes) -> Snapshot:
    """What one tick works from."""
    rows = session.exec(select(AlertRuleRow).where(col(AlertRuleRow.enabled).is_(True)).order_by(col(AlertRuleRow.id)))
    return Snapshot(
        rules=[(rule_view(row), row.version) for row in rows],
        nodes=watched.read(session),
        states={(row.rule_id, row.pool): row for row in session.exec(select(DetectorStateRow))},
        alerts=list(
            session.exec(select(AlertRow).where(AlertRow.source == OURS, col(AlertRow.state).in_(OPEN_STATES)))
        ),
    )


def jobs_of(seen: Snapshot, kinds: Mapping[type[BaseModel], Kind[Any]]) -> list[Job[Any]]:
    """Each rule on each pool that it is about; on the whole fleet at once where that is its scope."""
    jobs = []
    for rule, version in seen.rules:
        kind = kinds[type(rule.condition)]
        pools = [rule.pool or ""]
        if kind.scope is Scope.POOL:
            pools = sorted(seen.pools if rule.pool is None else seen.pools & {rule.pool})
        jobs += [_job(kind, rule, version, pool, len(pools), seen) for pool in pools]
    return jobs


def _job(kind: Kind[Any], rule: AlertRule, version: int, pool: str, pools: int, seen: Snapshot) -> Job[Any]:
    row = seen.states.get((rule.id, pool))
    row = row if row is not None and row.version == version else None
    mine = {
        alert.fingerprint: alert
        for alert in seen.alerts
        if alert.rule_id == rule.id and (alert.pool == pool or kind.scope is Scope.FLEET)
    }
    position, state = (None, {}) if row is None else (row.position, row.state)
    return Job(kind, rule, version, pool, pools, position, state, mine)
