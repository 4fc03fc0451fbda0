"""What the twin is told of a pool: its traffic, its requests' waterfalls, and its steps by node and window."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.contract import metrics
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import BadRequest, NotFound
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.metrics import Metric
from controlplane.contract.planning.whatif import (
    MOST_REQUESTS,
    ComputedSpan,
    StepWindow,
    TwinEngine,
    TwinTask,
    WhatIfCreate,
    span_of,
)
from controlplane.telemetry import Question, Span, TelemetryReader
from controlplane.whatif.busy_time import busy_s

_PARTS = (metrics.STEP_SCHEDULE, metrics.STEP_DRAFT, metrics.STEP_FORWARD, metrics.STEP_SAMPLE, metrics.STEP_COMMIT)
"""Of a step; attention lies within forward."""
_COUNTED = metrics.STEP_FORWARD
"""Each step has one."""

Place = tuple[str, datetime]
"""A node, and a window's start."""
Steps = Mapping[Place, tuple[int, float]]
"""How many, and their seconds."""


def gathered(
    telemetry: TelemetryReader,
    asked: WhatIfCreate,
    config: EngineConfig,
    revision: int | None,
    not_serving: Collection[str],
    engine: TwinEngine = "embedded",
) -> TwinTask:
    """Up to `asked.end`, and to the newest window at most.

    Raises `NotFound` where there is none, and for a pool of vLLM whose steps nobody counts; `BadRequest` for more than
    can be looked at."""
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
    found = telemetry.requests(start=start, end=end, pool=asked.pool, limit=max(1, len(workload.requests)))
    records = [one for one in found if one.node not in not_serving]
    pool = _Pool(telemetry, asked.pool, Span(start, end))
    steps = pool.counted_steps(records) if engine == "vllm" else pool.timed_steps()
    windows = [one for one in pool.windows(steps) if one.node not in not_serving]
    if engine == "vllm" and records and not windows:
        raise NotFound(
            f"pool {asked.pool}: its nodes do not count their steps, which the twin wants: vLLM does with Tailwright's "
            "plugin 0.2.0 or later and its scheduler (--scheduler-cls, docs/vllm.md)",
            field="pool",
        )
    drafted_at = pool.at_places(metrics.DRAFT_TOKENS, not_serving)
    accepted_at = pool.at_places(metrics.ACCEPTED_TOKENS, not_serving)
    return TwinTask(
        asked=asked,
        engine=engine,
        config=config,
        revision=revision,
        workload=workload,
        records=records,
        windows=windows,
        drafted_at=drafted_at,
        accepted_at=(accepted_at + [0.0] * len(drafted_at))[: len(drafted_at)],
    )


@dataclass(frozen=True)
class _Pool:
    """What telemetry knows of a pool's steps in a span."""

    telemetry: TelemetryReader
    name: str
    span: Span

    def timed_steps(self) -> Steps:
        """Of an engine that tells how long the parts of each step took."""
        steps: dict[Place, int] = {}
        seconds: dict[Place, float] = defaultdict(float)
        for metric in _PARTS:
            for series in self.telemetry.histograms(self._question(metric)):
                for at, sketch in series.steps:
                    place = (series.labels["node"], at)
                    seconds[place] += sketch.total
                    if metric is _COUNTED:
                        steps[place] = sketch.count
        return {place: (count, seconds[place]) for place, count in steps.items()}

    def counted_steps(self, records: Iterable[RequestRecord]) -> Steps:
        """Of an engine that counts its steps alone: what they took is how long any request was being computed."""
        spans: dict[str, list[ComputedSpan]] = defaultdict(list)
        for record in records:
            spans[record.node].append(span_of(record))
        busy = {node: busy_s(of_node, metrics.WINDOW_S) for node, of_node in spans.items()}
        return {
            (node, at): (round(count), busy.get(node, {}).get(round(at.timestamp() / metrics.WINDOW_S), 0.0))
            for (node, at), count in self._values(metrics.STEP_LIMIT).items()
        }

    def windows(self, steps: Steps) -> list[StepWindow]:
        drafted, accepted, usage = map(self._values, (metrics.DRAFT_TOKENS, metrics.ACCEPTED_TOKENS, metrics.KV_USAGE))
        deliveries = self._counts(metrics.ITL)
        return [
            StepWindow(
                node=node,
                start_s=at.timestamp(),
                width_s=metrics.WINDOW_S,
                steps=count,
                seconds=seconds,
                drafted=round(drafted.get((node, at), 0.0)),
                accepted=round(accepted.get((node, at), 0.0)),
                deliveries=deliveries.get((node, at), 0),
                kv_usage=usage.get((node, at)),
            )
            for (node, at), (count, seconds) in sorted(steps.items())
        ]

    def _counts(self, metric: Metric) -> dict[Place, int]:
        counts: dict[Place, int] = defaultdict(int)
        for series in self.telemetry.histograms(self._question(metric)):
            for at, sketch in series.steps:
                counts[series.labels["node"], at] += sketch.count
        return counts

    def at_places(self, metric: Metric, not_serving: Collection[str]) -> list[float]:
        """Draft tokens by their place in the draft, without those of unknown place."""
        label = metrics.POSITION.label
        found: dict[int, float] = defaultdict(float)
        for series in self.telemetry.scalars(
            Question(metric.short, self.span, ("node", label), {"pool": self.name}, step_s=None)
        ):
            if series.labels.get(label) and series.labels["node"] not in not_serving:
                found[int(series.labels[label])] += series.value
        return [found[place] for place in range(len(found))] if set(found) == set(range(len(found))) else []

    def _values(self, metric: Metric) -> dict[Place, float]:
        found = self.telemetry.scalars(self._question(metric))
        return {(series.labels["node"], at): value for series in found for at, value in series.steps}

    def _question(self, metric: Metric) -> Question:
        return Question(metric.short, self.span, ("node",), {"pool": self.name}, step_s=metrics.WINDOW_S)
