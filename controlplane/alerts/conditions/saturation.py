"""Saturation: requests wait longer than the pool's own bursts ever make them, for more arrives than is served.

Guarantees: waiting is judged against the pool's own past (`queueing.peak_watch`), never against a figure; it pages only
where an objective is broken or breaks within the horizon, and says so; what it was told as stays open until waiting is
over. A pool whose senders do not tell what waits is not judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field

from controlplane.alerts.conditions.absolute import limits_of
from controlplane.alerts.conditions.burn_rate import objectives_of
from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Snapshot, Sources
from controlplane.alerts.conditions.pool_loads import PoolLoads
from controlplane.alerts.queueing.knee import Usual, usual
from controlplane.alerts.queueing.overload import Pressure, pressure
from controlplane.alerts.queueing.peak_watch import PeakWatch
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.alerts.queueing.return_level import Manner
from controlplane.alerts.queueing.slo_forecast import WAITS, Forecast, forecast, nearest, slope
from controlplane.alerts.windows.history import instant
from controlplane.alerts.windows.pool_totals import PoolTotals
from controlplane.contract.bodies.alerts import AbsoluteCondition, BurnRateCondition, SaturationCondition, Severity
from controlplane.contract.bodies.slo import PROFILES, Limit
from controlplane.contract.duration_text import duration_text
from controlplane.contract.metrics import QUEUE

MANNER = Manner(block_s=60.0, floor=1.0, seen=2.0, young=4.0)
"""Of the wait, in seconds. Under a second it is never saturation: where that matters an objective's rule says so."""
LEAST_WAITING = 5.0
"""Nor where fewer requests wait: one behind another is no backlog."""
SPARE_S = 600.0
MEASURED_S, USUAL_S = 60.0, 600.0
"""An objective's quantile is measured over the newest minute, and was usual over the ten before the onset."""
BACKLOG, OBJECTIVE = "backlog", "objective"
"""What an alert is told as: `sign` among its labels."""

SaturationJob = Job[SaturationCondition]


class State(BaseModel):
    """What a job remembers of a pool."""

    wait: PeakWatch = Field(default_factory=PeakWatch)
    known: Usual | None = None


class Saturation(Kind[SaturationCondition]):
    condition = SaturationCondition
    seeks_causes = True
    _totals: PoolTotals

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self._loads = PoolLoads(sources)

    def prepare(self, jobs: Sequence[SaturationJob], seen: Snapshot, end: datetime) -> None:
        self._loads.cover(jobs, seen, end, max((_back_s(job) for job in jobs), default=0.0))
        self._totals = PoolTotals(self._sources.telemetry, {job.pool: seen.where(job.pool) for job in jobs})

    def judge(self, job: SaturationJob, seen: Snapshot, end: datetime) -> Findings:
        state = State.model_validate(job.state) if job.state else State()
        found: list[Finding] = []
        ticks = self._loads.new_ticks(job, end)
        whole = self._loads.of(job, ticks.stop, _back_s(job) + self._loads.step_s * len(ticks))
        for left in range(len(ticks) - 1, -1, -1):
            load = None if whole is None or left >= len(whole) else whole.until(len(whole) - left)
            at = instant((ticks.stop - left) * self._loads.step_s)
            if load is not None:
                _take(state, load, job)
                if state.wait.alarmed:
                    found += self._alarm(job, seen, state, load, at)
                    continue
            found += [Finding(labels_of(job.pool, sign), at, Reading.CLEAR) for sign in (BACKLOG, OBJECTIVE)]
        return Findings(found, state.model_dump(mode="json"))

    def _alarm(self, job: SaturationJob, seen: Snapshot, state: State, load: PoolLoad, at: datetime) -> list[Finding]:
        """It is told as an objective's once one is near, and stays so; before that as a backlog."""
        backlog, objective = (labels_of(job.pool, sign) for sign in (BACKLOG, OBJECTIVE))
        is_told = job.is_firing(objective)
        told = None if is_told else self._told(job, seen, state, load, at)
        if told is None or told.is_near:
            reading = Reading.HOLD if job.alert(backlog) is not None else Reading.CLEAR
            return [
                Finding(backlog, at, reading),
                Finding(objective, at, Reading.BREACH) if told is None else told.finding(objective, at, Severity.PAGE),
            ]
        return [told.finding(backlog, at, Severity.TICKET), Finding(objective, at, Reading.CLEAR)]

    def _told(self, job: SaturationJob, seen: Snapshot, state: State, load: PoolLoad, at: datetime) -> "_Told":
        assert state.wait.onset_s is not None
        onset = max(0, round((state.wait.onset_s - load.start_s) / load.step_s))
        grows = slope(load.wait_s[max(0, onset - 1) :], load.step_s)
        wait_s = float(load.wait_s[-1])
        since = instant(state.wait.onset_s)
        forecasts = [self._forecast(job, limit, since, at, wait_s, grows) for limit in objectives(job, seen)]
        explained = None if state.known is None else pressure(load, state.known, onset)
        return _Told(job, state, wait_s, grows, explained, nearest(forecasts))

    def _forecast(
        self, job: SaturationJob, limit: Limit, since: datetime, at: datetime, wait_s: float, grows: float
    ) -> Forecast:
        past = self._totals.of(job.pool, limit.metric, since - timedelta(seconds=USUAL_S), since)
        newest = self._totals.of(job.pool, limit.metric, at - timedelta(seconds=MEASURED_S), at)
        usual_s = past.quantile(limit.q) if past.count else 0.0
        return forecast(limit, usual_s, newest.quantile(limit.q) if newest.count else None, wait_s, grows)


@dataclass(frozen=True)
class _Told:
    """One moment of an alarm. wait_s: of a request that comes now; grows: seconds a second."""

    job: SaturationJob
    state: State
    wait_s: float
    grows: float
    explained: Pressure | None
    objective: Forecast | None

    @property
    def is_near(self) -> bool:
        return self.objective is not None and self.objective.is_near(self.job.condition.horizon_s)

    def finding(self, labels: dict[str, str], at: datetime, severity: Severity) -> Finding:
        watch = self.state.wait
        assert watch.level is not None and watch.onset_s is not None
        return Finding(
            labels,
            at,
            Reading.BREACH,
            since=instant(watch.onset_s),
            value=self.wait_s,
            threshold=watch.level.level,
            summary=self._summary(),
            evidence=self._evidence(at),
            stage=QUEUE.short,
            severity=severity,
        )

    def _summary(self) -> str:
        watch, explained = self.state.wait, self.explained
        assert watch.level is not None and watch.onset_s is not None
        text = f"Requests wait {duration_text(self.wait_s)}"
        if self.grows > 0.0:
            text += f", {duration_text(60.0 * self.grows)} more each minute,"
        text += f" since {instant(watch.onset_s):%H:%M:%S} UTC; bursts alone make it {duration_text(watch.level.level)}"
        if explained is not None:
            unit = f"{explained.unit}/s"
            text += f"; {explained.arrived:,.0f} {unit} arrive, {explained.served:,.0f} are served"
            text += f" (up to {explained.knee:,.0f} before without waiting)"
            text += f": {explained.words}" if explained.words else ""
        if self.objective is None:
            return f"{text}; no objective is known for the pool"
        return f"{text}; {self.objective.words}"

    def _evidence(self, at: datetime) -> dict[str, Any]:
        watch, explained, near = self.state.wait, self.explained, self.objective
        assert watch.level is not None and watch.onset_s is not None
        every_s, level = self.job.condition.false_alarm_every_s, watch.level
        return {
            "onset": instant(watch.onset_s).isoformat(),
            "wait_s": round(self.wait_s, 3),
            "wait_grows": round(self.grows, 4),
            "wait_limit_s": round(level.level, 3),
            "usual": {"wait_s": round(watch.usual, 3), "highest_s": round(level.highest, 3), "span_s": level.span_s},
            "load": None if explained is None else _load_evidence(explained),
            "knee_is_bound": None if self.state.known is None else not self.state.known.at_knee,
            "objective": None
            if near is None
            else {
                **near.limit.model_dump(),
                "broken": near.broken,
                "breaks_at": None if near.in_s is None else (at + timedelta(seconds=near.in_s)).isoformat(),
            },
            "error_rate": {
                "false_alarm_every_s": every_s,
                "statement": (
                    f"designed for one false alarm in {every_s / 86400:.3g} days over {self.job.pools} "
                    f"pool{'s' if self.job.pools > 1 else ''}, as far as waiting by bursts falls off as it did in the "
                    f"{duration_text(level.span_s)} it was learnt from, and never under twice the longest wait seen "
                    f"there ({duration_text(level.highest)})"
                ),
            },
        }


def _load_evidence(explained: Pressure) -> dict[str, Any]:
    return {
        "unit": f"{explained.unit}/s",
        "arrived": round(explained.arrived, 3),
        "served": round(explained.served, 3),
        "knee": round(explained.knee, 3),
        "factors": {name: round(one, 3) for name, one in explained.factors.items()},
        "shares": {name: round(one, 3) for name, one in explained.shares.items()},
    }


def labels_of(pool: str, sign: str) -> dict[str, str]:
    return {"kind": "saturation", "pool": pool, "sign": sign}


def objectives(job: SaturationJob, seen: Snapshot) -> list[Limit]:
    """The profile's; without one, those of the pool's other rules. Of metrics in which waiting is felt."""
    if job.condition.profile is not None:
        return [limit for limit in PROFILES[job.condition.profile] if limit.metric in WAITS]
    found: list[Limit] = []
    for rule, _ in seen.rules:
        if rule.pool not in (None, job.pool):
            continue
        if isinstance(rule.condition, AbsoluteCondition):
            found += limits_of(rule.condition)
        elif isinstance(rule.condition, BurnRateCondition):
            found += objectives_of(rule.condition)
    return [limit for limit in found if limit.metric in WAITS]


def _back_s(job: SaturationJob) -> float:
    return job.condition.baseline_s + SPARE_S


def _take(state: State, load: PoolLoad, job: SaturationJob) -> None:
    watch, learnt_s = state.wait, state.wait.learnt_s
    every_s = job.condition.false_alarm_every_s * max(job.pools, 1)
    waiting = load.waiting[-1] >= LEAST_WAITING
    watch.take(load.wait_s, load.start_s, load.step_s, MANNER, every_s, counts=bool(waiting))
    if watch.learnt_s != learnt_s and watch.level is not None and not watch.alarmed:
        stop = max(1, len(load) - load.ticks_of(MEASURED_S)) if len(load) > load.ticks_of(2 * MEASURED_S) else len(load)
        state.known = usual(load, slice(0, stop)) or state.known
