"""What a regression rule that names no metrics watches of a pool: what the service does, freed of waiting.

Stages are watched where at least half of the pool's requests tell them by raw timings. Elsewhere (a plain OTLP sender,
vLLM by its /metrics alone) first tokens and whole requests stand in, waiting and all. Where drafts are proposed a gap
is one between deliveries of several tokens, and no gap tells that fewer are accepted: there the time per output token
is watched, too. What was decided is told in the evidence. Decided anew each minute, from the last ten: a restart
decides the same.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.kind import Job
from controlplane.alerts.windows.histories import shareable
from controlplane.alerts.windows.history import History, Where, merged
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.histogram import is_coarse
from controlplane.contract.metrics import (
    DRAFT_TOKENS,
    E2E,
    ITL,
    NODE,
    POOL,
    PREFILL,
    SEND,
    TOKENIZE,
    TPOT,
    TTFT,
    UNACCOUNTED,
)
from controlplane.contract.share_text import share_text
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span, TelemetryReader

log = logging.getLogger(__name__)

STAGES = tuple(metric.short for metric in (PREFILL, ITL, TOKENIZE, SEND, UNACCOUNTED))
STAGES_WITH_DRAFTS = (*STAGES, TPOT.short)
STAND_INS = tuple(metric.short for metric in (TTFT, ITL, E2E))
MINOR = frozenset(metric.short for metric in (TOKENIZE, SEND, UNACCOUNTED))
"""Stages that hardly take any time: twice nothing is nothing, see `is_felt`."""
FELT_SHARE = 0.05
"""A minor stage counts where it has grown by this part of a whole request."""
ENOUGH_TOLD = 0.5
LOOK_S, LOOK_EVERY_S = 600.0, 60.0


@dataclass(frozen=True)
class Watched:
    """metrics: short names; told: the share of requests that tell their stages; None: the rule names its metrics."""

    metrics: tuple[str, ...]
    told: float | None = None

    @property
    def words(self) -> str:
        if self.told is None:
            return f"the metrics that the rule names: {', '.join(self.metrics)}"
        if self.metrics in (STAGES, STAGES_WITH_DRAFTS):
            return (
                f"stages, freed of waiting ({share_text(self.told)} of requests tell them): {', '.join(self.metrics)}"
            )
        return (
            f"{', '.join(self.metrics)} in place of stages: "
            f"{share_text(self.told)} of requests tell theirs by raw timings; "
            "waiting counts as slowness, too"
        )


class WatchedStages:
    """For one thread. `look` at each tick; `of` answers for the pools that were looked at."""

    def __init__(self, telemetry: TelemetryReader) -> None:
        self._telemetry = telemetry
        self._found: dict[str, tuple[datetime, Watched]] = {}

    def look(self, wheres: Mapping[str, Where], end: datetime) -> None:
        """wheres: the filters of the pools whose rules name no metrics. What cannot be read stays as it was."""
        due = {pool: where for pool, where in wheres.items() if self._is_due(pool, end)}
        together = sorted(pool for pool, where in due.items() if shareable(where))
        asked: list[Where] = [{POOL.label: together}] if together else []
        for where in asked + [where for where in due.values() if not shareable(where)]:
            span = Span(end - timedelta(seconds=LOOK_S), end)
            try:
                found, drafting = self._told(where, span), self._drafting(where, span)
            except Exception:
                log.exception("what pools %r tell of their stages could not be read", where[POOL.label])
                continue
            for pool, told in found.items():
                stages = STAGES_WITH_DRAFTS if pool in drafting else STAGES
                self._found[pool] = end, Watched(stages if told >= ENOUGH_TOLD else STAND_INS, told)

    def of(self, pool: str) -> Watched:
        """Stages, until something is known of the pool."""
        known = self._found.get(pool)
        return Watched(STAGES, 1.0) if known is None else known[1]

    def _is_due(self, pool: str, end: datetime) -> bool:
        known = self._found.get(pool)
        return known is None or abs((end - known[0]).total_seconds()) >= LOOK_EVERY_S

    def _told(self, where: Where, span: Span) -> dict[str, float]:
        """By pool the share of requests whose prefill is told by raw timings; a pool without traffic is absent."""
        told: dict[str, float] = {}
        for one in self._telemetry.histograms(Question(PREFILL.short, span, (POOL.label, NODE.label), where)):
            if not is_coarse(one.total.relative_error):
                pool = one.labels.get(POOL.label, "")
                told[pool] = told.get(pool, 0.0) + one.total.count
        served: dict[str, float] = {}
        for metric in (E2E.short, TTFT.short):  # First tokens where they are told: a request may fail after them.
            counted = self._telemetry.counts(Question(metric, span, (POOL.label,), where))
            served |= {one.labels.get(POOL.label, ""): one.value for one in counted if one.value}
        return {pool: min(told.get(pool, 0.0) / count, 1.0) for pool, count in served.items()}

    def _drafting(self, where: Where, span: Span) -> set[str]:
        """The pools in which drafts were proposed."""
        proposed = self._telemetry.scalars(Question(DRAFT_TOKENS.short, span, (POOL.label,), where))
        return {one.labels.get(POOL.label, "") for one in proposed if one.value}


def unwatched(job: Job[RegressionCondition], watched: Watched, end: datetime) -> list[Finding]:
    """Ends the alerts of what is watched no more, because the pool's senders tell something else now."""
    because = {"resolved_because": f"the pool is judged by something else now: {watched.words}"}
    return [
        Finding(dict(row.labels), end, Reading.CLEAR, evidence=because)
        for row in job.open_alerts.values()
        if row.labels.get("metric") not in watched.metrics
    ]


def is_felt(finding: Finding, history: History, whole: Callable[[datetime, datetime], Sketch]) -> bool:
    """Whether a minor stage has grown by `FELT_SHARE` of a whole request, at the median or at the quantile judged.

    whole: of a span the durations of whole requests; where there are none the stage is all that is known.
    """
    if finding.since is None:
        return True
    past = whole(finding.since - timedelta(seconds=LOOK_S), finding.since)
    if not past.count:
        return True
    since_s, only = finding.since.timestamp(), finding.evidence.get("prompt_bucket")
    before = merged([one for one in history.windows if since_s - LOOK_S <= one.start_s < since_s], finding.metric, only)
    during = merged([one for one in history.windows if one.start_s >= since_s], finding.metric, only)
    return not before.count or any(_grew(q, before, during, past) for q in (0.5, finding.q))


def _grew(q: float, before: Sketch, during: Sketch, whole: Sketch) -> bool:
    return during.quantile(q) - before.quantile(q) >= FELT_SHARE * whole.quantile(q)
