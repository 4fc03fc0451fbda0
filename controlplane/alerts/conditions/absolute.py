"""Absolute limits: a quantile over a window against its limit, and how likely chance alone would do it.

Guarantee: fewer than `min_count` requests decide nothing; a firing alert is called over only at `RESOLVE_AT` of the
limit, so that a value that rests on its limit does not flap.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.alerts.conditions.finding import Finding, Patience, Reading
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Look, Snapshot
from controlplane.alerts.conditions.watched_metrics import check_metrics, check_unique
from controlplane.alerts.windows.history import Where
from controlplane.alerts.windows.pool_totals import PoolTotals
from controlplane.alerts.words import accuracy, percentile
from controlplane.contract.bodies.alerts import AbsoluteCondition
from controlplane.contract.bodies.slo import PROFILES, Limit
from controlplane.contract.duration_text import duration_text
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import RELATIVE_ERROR, axis_position
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.on_call.metric_text import metric_title
from controlplane.evidence.binomial import tail_bound
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span

RESOLVE_AT = 0.9
RESOLVE_S = 15.0
MOST_WINDOWS = 12
"""Of a long absence only the last windows are judged."""


class Absolute(Kind[AbsoluteCondition]):
    condition = AbsoluteCondition
    threshold_is_limit = True
    dry_run_step_s = MOST_WINDOWS * WINDOW_S
    _totals: PoolTotals

    @classmethod
    def check(cls, condition: AbsoluteCondition) -> None:
        if not condition.limits and condition.profile is None:
            raise BadRequest(
                "condition.limits: give at least one limit, or a condition.profile that has some",
                field="condition.limits",
            )
        check_metrics(
            (f"condition.limits[{place}].metric", limit.metric) for place, limit in enumerate(condition.limits)
        )
        check_unique("condition.limits", [f"{limit.metric} at {limit.q:g}" for limit in condition.limits])

    def prepare(self, jobs: Sequence[Job[AbsoluteCondition]], seen: Snapshot, end: datetime) -> None:
        self._totals = PoolTotals(self._sources.telemetry, {job.pool: seen.where(job.pool) for job in jobs})

    def judge(self, job: Job[AbsoluteCondition], seen: Snapshot, end: datetime) -> Findings:
        width = max(round(self._sources.width_s / WINDOW_S), 1)
        missed = 1 if job.position is None else round((end - job.position).total_seconds() / WINDOW_S)
        count = min(max(missed, 1), max(MOST_WINDOWS, width))
        ends = [
            end - timedelta(seconds=WINDOW_S * place)
            for place in telling(round(end.timestamp() / WINDOW_S), count, job.condition.window_s, width)
        ]
        return Findings([self._finding(job, limit, at) for at in ends for limit in limits_of(job.condition)])

    def _finding(self, job: Job[AbsoluteCondition], limit: Limit, end: datetime) -> Finding:
        condition, requests = job.condition, self._requests(job, limit.metric, end)
        labels = {"kind": condition.kind, "pool": job.pool, "metric": limit.metric, "q": f"{limit.q:g}"}
        value_s, above, error = None, 0, RELATIVE_ERROR
        if (count := requests.count) >= condition.min_count:
            value_s, error = requests.quantile(limit.q), requests.relative_error
            above = requests.above(axis_position(limit.limit_s))
        evidence: dict[str, Any] = {"window_s": condition.window_s, "count": count, "above": above, **accuracy(error)}
        if value_s is not None:
            share = 1.0 - limit.q
            chance = tail_bound(above, count, share)
            evidence["error_rate"] = {
                "chance_at_most": chance,
                "statement": (
                    f"{above} of {count} requests above the limit; by luck alone, were {share:.3g} of them slow "
                    f"and all independent, so many would come with a probability of at most {chance:.2g}"
                ),
            }
        name = f"{metric_title(limit.metric)} {percentile(limit.q)}"
        value = "too few requests" if value_s is None else duration_text(value_s)
        return Finding(
            labels,
            end,
            reading(value_s, limit, is_firing=job.is_firing(labels)),
            Patience(condition.for_s, max(condition.for_s, RESOLVE_S)),
            metric=limit.metric,
            q=limit.q,
            value=value_s,
            threshold=limit.limit_s,
            relative_error=error,
            summary=f"{name} is {value}, limit {duration_text(limit.limit_s)}",
            evidence=evidence,
        )

    def _requests(self, job: Job[AbsoluteCondition], metric: str, end: datetime) -> Sketch:
        return self._totals.of(job.pool, metric, end - timedelta(seconds=job.condition.window_s), end)

    def onset(self, job: Job[AbsoluteCondition], story: Finding, first: datetime, where: Where) -> datetime:
        """Since when, up to the first breach, there were most slow requests beyond those allowed: see `begun`."""
        edge = axis_position(story.threshold or 1.0)
        start = first - timedelta(seconds=min(job.condition.window_s, 600.0))
        question = Question(story.metric, Span(start, first), where=where, step_s=WINDOW_S)
        steps: dict[datetime, Sketch] = {}
        for series in self._sources.telemetry.histograms(question):
            for time, sketch in series.steps:
                steps.setdefault(time, Sketch()).merge(sketch)
        beyond = [(time, sketch.above(edge) - (1.0 - story.q) * sketch.count) for time, sketch in sorted(steps.items())]
        return begun(beyond) or first - timedelta(seconds=WINDOW_S)

    def look(self, job: Job[AbsoluteCondition], labels: Mapping[str, str], end: datetime) -> Look:
        return Look(self._requests(job, labels["metric"], end), frozenset())


def begun(beyond: Sequence[tuple[datetime, float]]) -> datetime | None:
    """Of windows in order with the slow requests of each beyond those allowed: since when most have added up to the
    last one (E. S. Page's CUSUM, backwards); None where none have.

    A window holds a few dozen requests: by chance alone many an one in the midst of a slowdown has none too many.
    """
    total, most, since = 0.0, 0.0, None
    for time, count in reversed(beyond):
        total += count
        if total > most:
            most, since = total, time
    return since


def telling(last: int, count: int, window_s: float, width: int) -> Sequence[int]:
    """Of the `count` steps up to `last` those to judge at, the oldest first, as steps before `last`.

    width: of the windows that are kept, in steps. Where they are wider than one step nothing is new but where one of
    them enters what is looked at, or leaves it: these ends are judged, and those before them, which say how long the
    value before had lasted.
    """
    leaves = math.floor(window_s / WINDOW_S)
    moves = {place % width for place in (0, 1, leaves, leaves + 1)}
    return [place for place in reversed(range(count)) if place == 0 or (last - place) % width in moves]


def limits_of(condition: AbsoluteCondition) -> Sequence[Limit]:
    """The rule's own limits, else those of its profile."""
    return condition.limits or (PROFILES[condition.profile] if condition.profile else ())


def reading(value_s: float | None, limit: Limit, *, is_firing: bool) -> Reading:
    """What a quantile says of its limit; None: of too few requests to say anything."""
    if value_s is None:
        return Reading.HOLD
    if value_s > limit.limit_s:
        return Reading.BREACH
    return Reading.HOLD if is_firing and value_s > RESOLVE_AT * limit.limit_s else Reading.CLEAR
