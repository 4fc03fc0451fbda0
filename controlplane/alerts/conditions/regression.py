"""Regressions: requests slower than their own past at a load like today's (see `detector`), on one pool."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.alerts.conditions import engine_versions
from controlplane.alerts.conditions.deliberate import DOMAIN, Deliberate, changes_of
from controlplane.alerts.conditions.engine_versions import version_moves
from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Look, Snapshot, Sources
from controlplane.alerts.conditions.regression_findings import judge_regression, moved_entry, reach
from controlplane.alerts.conditions.watched_metrics import check_metrics, check_unique
from controlplane.alerts.conditions.watched_stages import (
    MINOR,
    STAGES_WITH_DRAFTS,
    STAND_INS,
    Watched,
    WatchedStages,
    is_felt,
    unwatched,
)
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.regressions.learner import GUARD_MAX_S, SUSPICION
from controlplane.alerts.tables import AlertRow
from controlplane.alerts.windows.histories import Histories, Wanted
from controlplane.alerts.windows.history import History, merged
from controlplane.alerts.windows.pool_record import NOTHING_KNOWN, PoolRecord, Span
from controlplane.alerts.windows.pool_totals import PoolTotals
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import E2E, WINDOW_S

SPARE_S = 60.0
"""So much more of the past is kept than a baseline and its distance want."""
RECENT_S = 30.0
"""The newest requests, by which growth is judged."""

RegressionJob = Job[RegressionCondition]


class Regression(Kind[RegressionCondition]):
    """`_detectors`: by rule and pool, with the rule's version and the position that they have come to."""

    condition = RegressionCondition

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self._metrics: tuple[str, ...] = ()
        self._watched = WatchedStages(sources.telemetry)
        self._totals: PoolTotals
        self._records: dict[str, PoolRecord] = {}
        self._histories = Histories(sources.telemetry)
        self._detectors: dict[tuple[int, str], tuple[int, datetime | None, Detector]] = {}

    @classmethod
    def check(cls, condition: RegressionCondition) -> None:
        if not condition.q:
            raise BadRequest("condition.q: name at least one quantile, as in [0.95, 0.99]", field="condition.q")
        for place, q in enumerate(condition.q):
            if not 0.5 <= q < 1.0:
                field = f"condition.q[{place}]"
                raise BadRequest(f"{field}: {q:g} is not a tail quantile; use 0.5 to below 1", field=field)
        check_metrics((f"condition.metrics[{place}]", metric) for place, metric in enumerate(condition.metrics))
        check_unique("condition.metrics", condition.metrics)
        check_unique("condition.q", [f"{q:g}" for q in condition.q])

    def read(self, session: Session, conditions: Sequence[RegressionCondition], now: datetime) -> None:
        """What the past says of baselines, as far back as a rule may look."""
        named = {metric for condition in conditions for metric in condition.metrics}
        if any(not condition.metrics for condition in conditions):
            named |= {*STAGES_WITH_DRAFTS, *STAND_INS}
        self._metrics = tuple(sorted(named))
        longest_s = max((condition.baseline_s for condition in conditions), default=0.0)
        since = now - timedelta(seconds=2 * longest_s)
        self._records = _records(session, self._metrics, since) if conditions else {}

    def prepare(self, jobs: Sequence[RegressionJob], seen: Snapshot, end: datetime) -> None:
        """Bring the windows of each pool up to `end`."""
        baseline_s: dict[str, float] = {}
        metrics: dict[str, set[str]] = {}
        self._watched.look({job.pool: seen.where(job.pool) for job in jobs if not job.condition.metrics}, end)
        for job in jobs:
            baseline_s[job.pool] = max(baseline_s.get(job.pool, 0.0), job.condition.baseline_s)
            metrics.setdefault(job.pool, set()).update(self._watched_by(job).metrics)
        self._totals = PoolTotals(self._sources.telemetry, {job.pool: seen.where(job.pool) for job in jobs})
        wanted = {}
        for pool, span_s in baseline_s.items():
            first_s = min(end.timestamp(), self._record(pool).begun_s()) - span_s - GUARD_MAX_S - SPARE_S
            first_s = math.floor(first_s / WINDOW_S) * WINDOW_S
            readable_s = max(first_s, end.timestamp() - self._sources.finest_kept_s // WINDOW_S * WINDOW_S)
            nodes = self._judged_nodes(pool, seen)
            wanted[pool] = Wanted(seen.where(pool), tuple(sorted(metrics[pool])), first_s, readable_s, nodes)
        self._histories.extend(wanted, end.timestamp())

    def judge(self, job: RegressionJob, seen: Snapshot, end: datetime) -> Findings | None:
        history = self._histories.get(job.pool)
        if history is None:
            return None
        watched = self._watched_by(job)
        detector = self._detector(job, watched)
        span_s = job.since(end).timestamp(), end.timestamp()
        record = self._record(job.pool)
        serving = [node for node in seen.by_pool.get(job.pool, []) if node.role is NodeRole.SERVING]
        record = replace(record, on_trial=record.on_trial | unlike_the_rest(serving))
        found = judge_regression(detector, history, job.pool, *span_s, record, job.is_firing)
        found = [self._told(job, finding, watched, history) for finding in found]
        found += unwatched(job, watched, end)
        self._detectors[job.rule.id, job.pool] = (job.version, end, detector)
        moved, detector.moved = detector.moved, []
        return Findings(found, detector.state(), [moved_entry(job.pool, metric, move) for metric, move in moved])

    def forget(self, job: RegressionJob) -> None:
        self._detectors.pop((job.rule.id, job.pool), None)

    def suspected(self, job: RegressionJob, labels: Mapping[str, str]) -> frozenset[str]:
        """What may be slow already when an alert fires is no news a minute later."""
        return self._reach(job, labels, SUSPICION)

    def look(self, job: RegressionJob, labels: Mapping[str, str], end: datetime) -> Look:
        row, history = job.alert(labels), self._histories.get(job.pool)
        since_s = end.timestamp() - RECENT_S
        windows = [] if history is None else [one for one in history.windows if one.start_s >= since_s]
        bucket = None if row is None else row.evidence.get("prompt_bucket")
        return Look(merged(windows, labels["metric"], bucket), self._reach(job, labels, 1.0))

    def _watched_by(self, job: RegressionJob) -> Watched:
        return Watched(tuple(job.condition.metrics)) if job.condition.metrics else self._watched.of(job.pool)

    def _told(self, job: RegressionJob, finding: Finding, watched: Watched, history: History) -> Finding:
        """A breach with what it was judged by; held back where users cannot feel it."""
        if finding.reading is not Reading.BREACH or not finding.metric:
            return finding
        if finding.metric in MINOR and not is_felt(finding, history, partial(self._totals.of, job.pool, E2E.short)):
            return Finding(finding.labels, finding.at, Reading.HOLD)
        return replace(finding, evidence={**finding.evidence, "judged_by": watched.words})

    def _detector(self, job: RegressionJob, watched: Watched) -> Detector:
        """As it was left where that is what the job goes on from, else made anew from the job's state."""
        version, position, detector = self._detectors.get((job.rule.id, job.pool), (None, None, None))
        known = detector is not None and tuple(detector.condition.metrics) == watched.metrics
        if detector is None or not known or (version, position) != (job.version, job.position):
            detector = Detector(job.condition.model_copy(update={"metrics": list(watched.metrics)}))
            detector.restore(job.state)
        detector.pools = job.pools
        return detector

    def _reach(self, job: RegressionJob, labels: Mapping[str, str], part: float) -> frozenset[str]:
        """What of a metric has this part of an alarm's evidence, in words."""
        kept = self._detectors.get((job.rule.id, job.pool))
        return frozenset() if kept is None else reach(kept[2], labels["metric"], part)

    def _record(self, pool: str) -> PoolRecord:
        return self._records.get(pool, NOTHING_KNOWN)

    def _judged_nodes(self, pool: str, seen: Snapshot) -> list[str] | None:
        """The nodes whose windows are judged while a rollout judges others; None: all that there are.

        A canary is compared with the rest by those who gave it its configuration, and taken back when it is worse: it
        neither raises an alarm of its own nor teaches what is normal. Where it is the whole pool it is watched as ever.
        """
        trial = self._record(pool).on_trial
        nodes = [node.node for node in seen.by_pool.get(pool, []) if node.role is NodeRole.SERVING]
        kept = [node for node in nodes if node not in trial]
        return kept if kept and len(kept) < len(nodes) else None


def unlike_the_rest(nodes: Sequence[NodeView]) -> frozenset[str]:
    """Nodes that are to run another revision than most; all, where no revision is most nodes'."""
    usual, count = Counter(node.desired_revision for node in nodes).most_common(1)[0] if nodes else (None, 0)
    has_most = 2 * count > len(nodes)
    return frozenset(node.node for node in nodes if not has_most or node.desired_revision != usual)


def _records(session: Session, metrics: Sequence[str], since: datetime) -> dict[str, PoolRecord]:
    """What alerts and rollouts say of each pool's past."""
    past = select(AlertRow).where(
        AlertRow.kind == RegressionCondition.model_fields["kind"].default,
        col(AlertRow.resolved_at).is_(None) | (col(AlertRow.resolved_at) > since),
    )
    alerts: dict[str, dict[str, list[Span]]] = {}
    for row in session.exec(past):
        until_s = math.inf if row.resolved_at is None else row.resolved_at.timestamp()
        span = (row.started_at.timestamp() - WINDOW_S, until_s)
        alerts.setdefault(row.pool, {}).setdefault(row.labels.get("metric", ""), []).append(span)
    changes = changes_of(ledger.since(session, DOMAIN, since), metrics)
    versions = version_moves(ledger.since(session, engine_versions.KIND, since))
    found = {}
    for pool in {*alerts, *changes, *versions}:
        one, newer = changes.get(pool, Deliberate()), versions.get(pool, [])
        moves = {name: sorted([*one.moves.get(name, ()), *newer], key=lambda move: move.at_s) for name in metrics}
        found[pool] = PoolRecord(alerts.get(pool, {}), tuple(one.taken_back), moves, one.on_trial, tuple(one.changing))
    return found
