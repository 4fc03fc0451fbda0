"""Requests that the service lost: their share against what is normal for the pool, by the e-detector.

Timeouts, sheds, refusals and disconnects leave no latency behind: a pool that drops its slowest third looks faster. So
the share of lost requests (`finish_reasons.FAILED`) is judged by itself. Normal is what the pool's own past shows, at
least `allowed_share`, at most `MOST_NORMAL`: who has always lost more is told so.

Guarantees: the past that a window is judged by lies `GUARD_S` before it, holds nothing since suspicion arose and no
span of an alarm; requests that their clients left count neither as lost nor as served.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Snapshot
from controlplane.alerts.regressions.learner import SUSPICION
from controlplane.alerts.windows.history import instant
from controlplane.alerts.windows.pool_endings import Ended, PoolEndings
from controlplane.contract.bodies.alerts import RequestsFailedCondition
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.share_text import share_text
from controlplane.evidence.binomial import Z_95, wilson_upper
from controlplane.evidence.e_detector import Exceedances, Stream, observe

GUARD_S = 300.0
PHI = 2.0
"""Tempering: requests are lost in clusters, a full queue sheds several at once."""
MOST_NORMAL = 0.1


class RequestsFailed(Kind[RequestsFailedCondition]):
    condition = RequestsFailedCondition
    seeks_causes = True
    _endings: PoolEndings

    def prepare(self, jobs: Sequence[Job[RequestsFailedCondition]], seen: Snapshot, end: datetime) -> None:
        self._endings = PoolEndings(self._sources.telemetry, {job.pool: seen.where(job.pool) for job in jobs})

    def judge(self, job: Job[RequestsFailedCondition], seen: Snapshot, end: datetime) -> Findings:
        condition, start = job.condition, job.since(end)
        if job.state:
            known = LostShare.load(condition, job.state)
        else:  # The past lies there when a rule begins.
            until = start - timedelta(seconds=GUARD_S)
            since = until - timedelta(seconds=condition.baseline_s)
            count, lost = self._endings.before(job.pool, since, until)
            known = LostShare(condition=condition, count=count, lost=lost)
        windows = self._endings.of(job.pool, start, end)
        return Findings(judge_requests_failed(known, windows, job.pool, job.pools, end), known.dump())


class LostShare(BaseModel):
    """What is known of one pool: its aged counts, the windows too young to be among them, and the evidence."""

    condition: RequestsFailedCondition = Field(exclude=True)
    count: float = 0.0
    lost: float = 0.0
    recent: list[tuple[float, int, int]] = []  # Start, count, lost.
    stream: Stream = Field(default_factory=Stream)
    during: dict[str, int] = {}  # Since something spoke for a change: lost by reason.
    during_count: int = 0

    @classmethod
    def load(cls, condition: RequestsFailedCondition, state: Mapping[str, Any]) -> "LostShare":
        return cls(condition=condition, **state)

    def dump(self) -> dict[str, Any]:
        return self.model_dump(mode="json") | {"count": round(self.count, 3), "lost": round(self.lost, 3)}

    @property
    def null(self) -> float:
        """The largest share that still counts as normal."""
        bound = wilson_upper(self.lost / PHI, self.count / PHI, Z_95) if self.count > 0.0 else 0.0
        return min(max(bound, self.condition.allowed_share), MOST_NORMAL)

    def take(self, window: Ended, pools: int) -> None:
        """Judge one window, then learn from those that are old enough."""
        log_threshold = math.log1p(self.condition.false_alarm_every_s / WINDOW_S * max(pools, 1))
        was_alarmed, onset_s = self.stream.alarmed, self.stream.onset_s
        observe(
            self.stream, window.start_s, [Exceedances(window.count, window.lost_count, self.null)], PHI, log_threshold
        )
        self.recent.append((window.start_s, window.count, window.lost_count))
        if was_alarmed and not self.stream.alarmed:
            self.recent = [one for one in self.recent if one[0] < (onset_s or window.start_s)]
        if max(self.stream.gain) <= 0.0 and not self.stream.alarmed:
            self.during, self.during_count = {}, 0
        else:
            for reason, number in window.lost.items():
                self.during[reason] = self.during.get(reason, 0) + number
            self.during_count += window.count
        self._learn(window.start_s, log_threshold)

    def _learn(self, at_s: float, log_threshold: float) -> None:
        suspected_s = self.stream.suspected_from(SUSPICION * log_threshold)
        until_s = min(at_s - GUARD_S, math.inf if suspected_s is None else suspected_s)
        keep = math.exp(-WINDOW_S / self.condition.baseline_s)
        while self.recent and self.recent[0][0] < until_s:
            _, count, lost = self.recent.pop(0)
            self.count, self.lost = keep * self.count + count, keep * self.lost + lost


def labels_of(pool: str) -> dict[str, str]:
    return {"kind": "requests_failed", "pool": pool}


def judge_requests_failed(
    known: LostShare, windows: Sequence[Ended], pool: str, pools: int, end: datetime
) -> list[Finding]:
    """One finding per window; windows without requests say nothing."""
    findings = []
    for window in windows:
        known.take(window, pools)
        at = instant(window.start_s + WINDOW_S)
        if not known.stream.alarmed:
            findings.append(Finding(labels_of(pool), at, Reading.CLEAR))
        else:
            findings.append(_finding(known, pool, at))
    return findings or [Finding(labels_of(pool), end, Reading.HOLD)]


def _finding(known: LostShare, pool: str, at: datetime) -> Finding:
    lost, count = sum(known.during.values()), max(known.during_count, 1)
    onset = instant(known.stream.onset_s or at.timestamp())
    reasons = ", ".join(f"{number} {reason}" for reason, number in sorted(known.during.items(), key=lambda kv: -kv[1]))
    every_s = known.condition.false_alarm_every_s
    return Finding(
        labels_of(pool),
        at,
        Reading.BREACH,
        since=onset,
        summary=(
            f"{share_text(lost / count, 1)} of requests are lost ({lost} of {count}: {reasons}) "
            f"since {onset:%H:%M:%S} UTC, "
            f"normal is at most {share_text(known.null, 1)}"
        ),
        evidence={
            "onset": onset.isoformat(),
            "count": known.during_count,
            "lost": dict(known.during),
            "lost_share": round(lost / count, 4),
            "served_share": round(1.0 - lost / count, 4),
            "normal_share": round(known.null, 4),
            "baseline": {"count": round(known.count), "lost": round(known.lost)},
            "error_rate": {
                "false_alarm_every_s": every_s,
                "statement": f"designed for one false alarm in {every_s / 86400:.3g} days over all pools of the rule",
            },
        },
    )
