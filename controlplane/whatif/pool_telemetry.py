"""What the twin is told of a pool: its traffic, its requests' waterfalls, and its steps by node and window."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from controlplane.contract import metrics
from controlplane.contract.errors import BadRequest, NotFound
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.metrics import Metric
from controlplane.contract.planning.whatif import MOST_REQUESTS, StepWindow, TwinTask, WhatIfCreate
from controlplane.telemetry import Question, Span, TelemetryReader, ValueSeries

_PARTS = (metrics.STEP_SCHEDULE, metrics.STEP_DRAFT, metrics.STEP_FORWARD, metrics.STEP_SAMPLE, metrics.STEP_COMMIT)
"""Of a step; attention lies within forward."""
_COUNTED = metrics.STEP_FORWARD
"""Each step has one."""

Place = tuple[str, datetime]


def gathered(
    telemetry: TelemetryReader,
    asked: WhatIfCreate,
    config: EngineConfig,
    revision: int | None,
    not_serving: Collection[str],
) -> TwinTask:
    """Up to `asked.end`, and to the newest window at most.

    Raises `NotFound` where there is none, `BadRequest` for more than can be looked at."""
    end = telemetry.latest()
    if end is None:
        raise NotFound(f"pool {asked.pool}: there is no telemetry yet", field="pool")
    end = min(end, asked.end or end)
    start = end - timedelta(seconds=asked.window_s)
    workload = telemetry.workload(asked.pool, start, end)
    if len(workload.requests) > MOST_REQUESTS:
        raise BadRequest(
            f"window_s: {len(workload.requests)} requests came in {asked.window_s:g} s, at most {MOST_REQUESTS} are "
            f"looked at; ask for about {asked.window_s * MOST_REQUESTS / len(workload.requests):.0f} s",
            field="window_s",
        )
    records = telemetry.requests(start=start, end=end, pool=asked.pool, limit=max(1, len(workload.requests)))
    return TwinTask(
        asked=asked,
        config=config,
        revision=revision,
        workload=workload,
        records=[one for one in records if one.node not in not_serving],
        windows=[one for one in _windows(telemetry, asked.pool, Span(start, end)) if one.node not in not_serving],
    )


def _windows(telemetry: TelemetryReader, pool: str, span: Span) -> list[StepWindow]:
    def asked_of(metric: Metric) -> Question:
        return Question(metric.short, span, ("node",), {"pool": pool}, step_s=metrics.WINDOW_S)

    steps: dict[Place, int] = {}
    seconds: dict[Place, float] = defaultdict(float)
    for metric in _PARTS:
        for series in telemetry.histograms(asked_of(metric)):
            for at, sketch in series.steps:
                place = (series.labels["node"], at)
                seconds[place] += sketch.total
                if metric is _COUNTED:
                    steps[place] = sketch.count
    drafted, accepted, usage = (
        _values(telemetry.scalars(asked_of(metric)))
        for metric in (metrics.DRAFT_TOKENS, metrics.ACCEPTED_TOKENS, metrics.KV_USAGE)
    )
    return [
        StepWindow(
            node=node,
            start_s=at.timestamp(),
            width_s=metrics.WINDOW_S,
            steps=count,
            seconds=seconds[node, at],
            drafted=round(drafted.get((node, at), 0.0)),
            accepted=round(accepted.get((node, at), 0.0)),
            kv_usage=usage.get((node, at)),
        )
        for (node, at), count in sorted(steps.items())
    ]


def _values(found: Iterable[ValueSeries]) -> dict[Place, float]:
    return {(series.labels["node"], at): value for series in found for at, value in series.steps}
