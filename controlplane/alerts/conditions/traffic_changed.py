"""A surge of load, or another mix of prompts, that users feel: told as such, so that nobody looks for a fault.

Guarantees: told only where load or mix is beyond what the pool's past reaches by bursts, and where users feel it (first
tokens or whole requests are slower by a tenth, or the mix alone makes them so); what lasts an hour is the new normal.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Snapshot, Sources
from controlplane.alerts.conditions.pool_loads import PoolLoads
from controlplane.alerts.queueing.level_watch import LevelWatch
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.alerts.queueing.traffic_shift import (
    LOAD_RISES,
    MIX_RISES,
    MIX_S,
    ByMix,
    by_mix_alone,
    load_series,
    mix_series,
    shares,
    usual_shares,
)
from controlplane.alerts.windows.history import instant
from controlplane.alerts.words import percentile
from controlplane.contract.bodies.alerts import TrafficChangedCondition
from controlplane.contract.duration_text import duration_text
from controlplane.contract.metrics import E2E, PROMPT_BUCKET, PROMPT_BUCKETS, TTFT
from controlplane.contract.on_call.metric_text import metric_name
from controlplane.contract.share_text import share_text
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span, Where

LASTS_S = 3600.0
"""A change that has lasted so long is what is usual by now."""
FELT, FELT_Q = 1.1, 0.95
NEWEST_S, BEFORE_S = 60.0, 600.0
PAST_S = 3600.0
"""How slow each prompt bucket was is taken from so long before the change."""
SURGE, MIX = "surge", "mix"
"""What is told: `sign` among an alert's labels."""

TrafficJob = Job[TrafficChangedCondition]


class State(BaseModel):
    """What a job remembers of a pool: both watches, and which signs users have felt."""

    load: LevelWatch = Field(default_factory=LevelWatch)
    mix: LevelWatch = Field(default_factory=LevelWatch)
    felt: list[str] = []


class TrafficChanged(Kind[TrafficChangedCondition]):
    condition = TrafficChangedCondition

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self._loads = PoolLoads(sources)

    def prepare(self, jobs: Sequence[TrafficJob], seen: Snapshot, end: datetime) -> None:
        self._loads.cover(jobs, seen, end, max((job.condition.baseline_s for job in jobs), default=0.0))

    def judge(self, job: TrafficJob, seen: Snapshot, end: datetime) -> Findings:
        state = State.model_validate(job.state) if job.state else State()
        found: list[Finding] = []
        ticks = self._loads.new_ticks(job, end)
        back_s = job.condition.baseline_s + self._loads.step_s * len(ticks)
        whole = self._loads.of(job, ticks.stop, back_s)
        for left in range(len(ticks) - 1, -1, -1):
            at = instant((ticks.stop - left) * self._loads.step_s)
            if whole is None or left >= len(whole):
                found += [Finding(labels_of(job.pool, sign), at, Reading.CLEAR) for sign in (SURGE, MIX)]
                continue
            load = whole.until(len(whole) - left)
            _take(state, load, job)
            found.append(self._surge(job, seen.where(job.pool), state, load, at))
            found.append(self._mix(job, seen.where(job.pool), state, load, at))
        return Findings(found, state.model_dump(mode="json"))

    def _surge(self, job: TrafficJob, where: Where, state: State, load: PoolLoad, at: datetime) -> Finding:
        labels, watch = labels_of(job.pool, SURGE), state.load
        if not watch.alarmed or watch.onset_s is None:
            return Finding(labels, at, Reading.CLEAR)
        if SURGE in state.felt:
            return Finding(labels, at, Reading.BREACH)
        since = instant(watch.onset_s)
        slower = self._slower(where, since, at)
        if slower is None:
            return Finding(labels, at, Reading.HOLD)
        state.felt.append(SURGE)
        onset = max(0, round((watch.onset_s - load.start_s) / load.step_s))
        before, during = (
            float(load.arrived[one].mean()) / load.step_s for one in (slice(0, onset), slice(onset, None))
        )
        each = load.tokens_each(slice(0, None))
        tokens = f" ({before * each:,.0f} to {during * each:,.0f} tokens)" if each else ""
        rose = f"Load rose from {before:.3g} to {during:.3g} requests a second{tokens}"
        summary = f"{rose} since {since:%H:%M:%S} UTC; {slower}"
        evidence = {"rate_before": before, "rate_during": during, "tokens_each": each}
        return self._breach(job, watch, labels, at, summary, evidence)

    def _mix(self, job: TrafficJob, where: Where, state: State, load: PoolLoad, at: datetime) -> Finding:
        labels, watch = labels_of(job.pool, MIX), state.mix
        if not watch.alarmed or watch.onset_s is None:
            return Finding(labels, at, Reading.CLEAR)
        if MIX in state.felt:
            return Finding(labels, at, Reading.BREACH)
        since, before = instant(watch.onset_s), usual_shares(load)
        now = shares(load, slice(max(0, len(load) - load.ticks_of(MIX_S)), len(load)))
        grown = self._by_mix_alone(where, since, now)
        if grown is None or grown.now_s < FELT * grown.before_s:
            return Finding(labels, at, Reading.HOLD)
        state.felt.append(MIX)
        was, is_now = duration_text(grown.before_s), duration_text(grown.now_s)
        summary = (
            f"Prompts got longer since {since:%H:%M:%S} UTC: {longer_words(before, now)}; by that alone, each length "
            f"as slow as before, E2E {percentile(grown.q)} grows from {was} to {is_now}"
        )
        evidence = {"before": before, "during": now, "e2e_before_s": grown.before_s, "e2e_by_mix_alone_s": grown.now_s}
        return self._breach(job, watch, labels, at, summary, evidence)

    def _breach(
        self,
        job: TrafficJob,
        watch: LevelWatch,
        labels: dict[str, str],
        at: datetime,
        summary: str,
        evidence: dict[str, Any],
    ) -> Finding:
        assert watch.onset_s is not None
        every_s = job.condition.false_alarm_every_s
        statement = (
            f"designed for one false alarm in {every_s / 86400:.3g} days over {job.pools} "
            f"pool{'s' if job.pools > 1 else ''}, as far as the past shows how the traffic wanders by itself"
        )
        error_rate = {"false_alarm_every_s": every_s, "statement": statement}
        onset = instant(watch.onset_s)
        told = {"onset": onset.isoformat(), **evidence, "error_rate": error_rate}
        return Finding(labels, at, Reading.BREACH, since=onset, summary=summary, evidence=told)

    def _slower(self, where: Where, since: datetime, at: datetime) -> str | None:
        """How users feel it, in words; None where they do not."""
        for metric in (TTFT.short, E2E.short):
            then = self._total(metric, where, Span(since - timedelta(seconds=BEFORE_S), since))
            now = self._total(metric, where, Span(at - timedelta(seconds=NEWEST_S), at))
            if not then.count or not now.count:
                continue
            before_s, now_s = then.quantile(FELT_Q), now.quantile(FELT_Q)
            if now_s >= FELT * before_s:
                name = f"{metric_name(metric)} {percentile(FELT_Q)}"
                return f"{name} went from {duration_text(before_s)} to {duration_text(now_s)} with it"
        return None

    def _by_mix_alone(self, where: Where, since: datetime, now: dict[str, float]) -> ByMix | None:
        span = Span(since - timedelta(seconds=PAST_S), since)
        past: dict[str, Sketch] = {}
        for series in self._sources.telemetry.histograms(Question(E2E.short, span, (PROMPT_BUCKET.label,), where)):
            past.setdefault(series.labels.get(PROMPT_BUCKET.label, ""), Sketch()).merge(series.total)
        return by_mix_alone(past, now)

    def _total(self, metric: str, where: Where, span: Span) -> Sketch:
        total = Sketch()
        for series in self._sources.telemetry.histograms(Question(metric, span, where=where)):
            total.merge(series.total)
        return total


def labels_of(pool: str, sign: str) -> dict[str, str]:
    return {"kind": "traffic_changed", "pool": pool, "sign": sign}


def longer_words(before: dict[str, float], now: dict[str, float]) -> str:
    """The length from which on the share of requests has grown most."""
    grown = {
        PROMPT_BUCKETS[place]: sum(now.get(name, 0.0) - before.get(name, 0.0) for name in PROMPT_BUCKETS[place + 1 :])
        for place in range(len(PROMPT_BUCKETS) - 1)
    }
    edge = max(grown, key=lambda name: grown[name])
    above = PROMPT_BUCKETS[PROMPT_BUCKETS.index(edge) + 1 :]
    was, is_now = (sum(one.get(name, 0.0) for name in above) for one in (before, now))
    return f"those over {edge.removeprefix('<=')} tokens were {share_text(was)} of requests, now {share_text(is_now)}"


def _take(state: State, load: PoolLoad, job: TrafficJob) -> None:
    # Two watches share what the rule promises.
    ticks = 2.0 * max(job.pools, 1) * job.condition.false_alarm_every_s / load.step_s
    state.load.take(load_series(load), LOAD_RISES, math.log1p(ticks), LASTS_S)
    state.mix.take(mix_series(load), MIX_RISES, math.log1p(ticks), LASTS_S)
    watches = {SURGE: state.load, MIX: state.mix}
    state.felt = [sign for sign in state.felt if watches[sign].alarmed]
