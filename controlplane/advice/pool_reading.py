"""A pool's figures, read from telemetry: what its serving nodes told in a span.

Guarantee: trial nodes' replays count nowhere; a metric that no node told is None; peaks are of whole steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.advice.pool_figures import PoolFigures, Readings, Step
from controlplane.contract import metrics
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import RELATIVE_ERROR, upper_edge
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.metrics import WINDOW_S, Metric
from controlplane.contract.planning.traffic_mix import mix_of
from controlplane.contract.planning.whatif import MOST_REQUESTS
from controlplane.contract.retention_defaults import LEVELS_S
from controlplane.contract.step_limits import STEP_LIMITS, StepLimit
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span, TelemetryReader, ValueSeries
from controlplane.telemetry.question import Cost

LONGEST_S = 7 * 86400.0
MINUTE_S, DAY_S = 60, 86400
FINE_SPAN_S = 2 * 3600
"""Up to this long a span's gauges are read window by window."""
_STEP_PARTS = (
    metrics.STEP_SCHEDULE,
    metrics.STEP_DRAFT,
    metrics.STEP_FORWARD,
    metrics.STEP_SAMPLE,
    metrics.STEP_COMMIT,
)
"""Of a step; attention lies within forward."""
_BYTES = (metrics.ESTIMATED_READ_BYTES, metrics.ESTIMATED_WRITE_BYTES)
MOST_WINDOWS = 300
"""Of those that the time of forward passes is fitted in."""
_STAGES = (metrics.QUEUE, metrics.PREFILL, metrics.DECODE, metrics.E2E)


@dataclass(frozen=True)
class PoolFiguresReader:
    """Reads one pool's figures; cost bounds what that takes. Raises `BadRequest` for a span of over a week."""

    telemetry: TelemetryReader
    pool: str
    cost: Cost

    def read(self, asked: Span, config: EngineConfig | None, serving: Sequence[NodeView]) -> PoolFigures:
        """Up to the newest window that has data."""
        if asked.seconds > LONGEST_S:
            raise BadRequest("window: advice looks at a week at most", field="window")
        newest = self.telemetry.latest() or asked.start
        span = Span(asked.start, min(asked.end, max(newest, asked.start)))
        if span.seconds <= 0:
            return PoolFigures(self.pool, asked.start, asked.end, 0.0, MINUTE_S, config=config, serving=serving)
        step_s, width_s = step_of(asked), reading_width_of(asked, newest)
        answered = self._counts(metrics.E2E, span, (metrics.NODE.label,), step_s)
        began = self._began(span, width_s)
        measured = Span(began, span.end)
        ttft, gaps = self._sketch(metrics.TTFT, span), self._sketch(metrics.ITL, span)
        tails = None if ttft is None or not ttft.count else ttft.quantiles([0.95, 0.99])
        kv = self._readings(metrics.KV_USAGE, span, width_s, 1.0)
        served = self._newest(span, sum(one.value for one in answered))
        return PoolFigures(
            pool=self.pool,
            start=span.start,
            end=span.end,
            measured_s=measured.seconds,
            step_s=step_s,
            requests=round(sum(one.value for one in answered)),
            steps=self._steps(measured, step_s, answered),
            nodes=sum(1 for one in answered if one.value),
            seconds=self._seconds(_STAGES, span),
            prompt_tokens=self._sum(metrics.PROMPT_TOKENS, span),
            output_tokens=self._sum(metrics.OUTPUT_TOKENS, span),
            ttft_p95_s=None if tails is None else tails[0],
            ttft_p99_s=None if tails is None else tails[1],
            stalls=None if gaps is None else stalls_of(gaps),
            by_prompt=self._by(metrics.E2E, metrics.PROMPT_BUCKET.label, span),
            queries=self._sum(metrics.PREFIX_QUERIES, span),
            hits=self._sum(metrics.PREFIX_HITS, span),
            findable=findable([(one.input_length, one.hash_ids) for one in served.requests], served.block_size),
            mix=mix_of(served),
            drafted=self._sum(metrics.DRAFT_TOKENS, span),
            accepted=self._sum(metrics.ACCEPTED_TOKENS, span),
            preempted=self._preempted(span, told=kv is not None),
            limits=self.limits(span),
            step_parts=self._seconds(_STEP_PARTS, span),
            waiting=self._readings(metrics.WAITING, span, width_s, 0.0),
            running=self._readings(metrics.RUNNING, span, width_s, 1.0),
            kv=kv,
            config=config,
            serving=serving,
            flops=self._sum(metrics.ESTIMATED_FLOPS, span),
            moved=self._moved(span),
            forwards=self._forwards(measured, width_s),
        )

    # -- questions -------------------------------------------------------------------------------------------------

    def _asked(self, metric: Metric, span: Span, by: Sequence[str] = (), step_s: float | None = None) -> Question:
        where = {metrics.POOL.label: [self.pool], metrics.ROLE.label: [""]}
        return Question(metric.short, span, by, where, step_s, cost=self.cost)

    def _counts(self, metric: Metric, span: Span, by: Sequence[str], step_s: float | None = None) -> list[ValueSeries]:
        return self.telemetry.counts(self._asked(metric, span, by, step_s))

    def _scalars(
        self, metric: Metric, span: Span, by: Sequence[str] = (), step_s: float | None = None
    ) -> list[ValueSeries]:
        return self.telemetry.scalars(self._asked(metric, span, by, step_s))

    def _sketch(self, metric: Metric, span: Span) -> Sketch | None:
        found = self.telemetry.histograms(self._asked(metric, span))
        return found[0].total if found else None

    def _seconds(self, wanted: Sequence[Metric], span: Span) -> dict[str, float]:
        found = {metric.short: self._sketch(metric, span) for metric in wanted}
        return {short: sketch.total for short, sketch in found.items() if sketch is not None}

    def _sum(self, metric: Metric, span: Span) -> float | None:
        found = self._scalars(metric, span)
        return found[0].value if found else None

    def _moved(self, span: Span) -> float | None:
        found = [amount for metric in _BYTES if (amount := self._sum(metric, span)) is not None]
        return sum(found) if found else None

    def _forwards(self, span: Span, width_s: float) -> list[tuple[float, float, float]]:
        """Of the whole pool, in at most some hundreds of windows: seconds of forward passes, FLOPs, bytes."""
        levels = sorted(width for width in LEVELS_S if width >= width_s)
        step_s = next((width for width in levels if width * MOST_WINDOWS >= span.seconds), max(LEVELS_S))
        counts = [
            dict(found[0].steps) if (found := self._scalars(metric, span, (), step_s)) else {}
            for metric in (metrics.ESTIMATED_FLOPS, *_BYTES)
        ]
        flops, *moved = counts
        if not flops:
            return []
        seconds = self.telemetry.histograms(self._asked(metrics.STEP_FORWARD, span, (), step_s))
        return [
            (sketch.total, flops.get(at, 0.0), sum(one.get(at, 0.0) for one in moved))
            for series in seconds
            for at, sketch in series.steps
        ]

    def _by(self, metric: Metric, label: str, span: Span) -> dict[str, float]:
        return {one.labels[label]: one.value for one in self._counts(metric, span, (label,)) if one.labels.get(label)}

    def limits(self, span: Span) -> Mapping[StepLimit, float]:
        """Steps by what bound them."""
        label = metrics.LIMIT.label
        found = self._scalars(metrics.STEP_LIMIT, span, (label,))
        return {StepLimit(one.labels[label]): one.value for one in found if one.labels.get(label) in STEP_LIMITS}

    def _preempted(self, span: Span, told: bool) -> float | None:
        """An engine that reports itself, and none of these, has had none."""
        found = self._sum(metrics.PREEMPTIONS, span)
        return 0.0 if found is None and told else found

    def _readings(self, metric: Metric, span: Span, width_s: float, level: float) -> Readings | None:
        """Of each node at the end of each window."""
        series = self._scalars(metric, span, (metrics.NODE.label,), width_s)
        values = [value for one in series for _, value in one.steps]
        if not values:
            return None
        return Readings(len(values), sum(value > level for value in values), max(values), width_s)

    # -- what is made of the answers -------------------------------------------------------------------------------

    def _began(self, span: Span, width_s: float) -> datetime:
        """The pool's first data in the span: before, nobody can tell an idle pool from none."""
        firsts = [
            series.steps[0][0]
            for found in (
                self._scalars(metrics.RUNNING, span, (), width_s),
                self._counts(metrics.E2E, span, (), width_s),
            )
            for series in found
            if series.steps
        ]
        return max(min(firsts, default=span.start), span.start)

    def _steps(self, measured: Span, step_s: float, answered: Sequence[ValueSeries]) -> list[Step]:
        """Whole ones, those without a request too."""
        requests: dict[datetime, float] = {}
        nodes: dict[datetime, int] = {}
        for series in answered:
            for at, count in series.steps:
                requests[at] = requests.get(at, 0.0) + count
                nodes[at] = nodes.get(at, 0) + (count > 0)
        prompts, outputs = (
            None if not found else dict(found[0].steps)
            for found in (
                self._scalars(metrics.PROMPT_TOKENS, measured, (), step_s),
                self._scalars(metrics.OUTPUT_TOKENS, measured, (), step_s),
            )
        )
        return [
            Step(
                requests.get(at, 0.0),
                None if prompts is None else prompts.get(at, 0.0),
                None if outputs is None else outputs.get(at, 0.0),
                nodes.get(at, 0),
            )
            for at in whole_steps(measured, step_s)
        ]

    def _newest(self, span: Span, requests: float) -> Workload:
        """Of the newest requests, as many as a forecast looks at."""
        start = span.start
        if requests > MOST_REQUESTS:
            start = span.end - timedelta(seconds=span.seconds * MOST_REQUESTS / requests)
        found = self.telemetry.workload(self.pool, start, span.end)
        return found.model_copy(update={"requests": found.requests[-MOST_REQUESTS:]})


def step_of(span: Span) -> int:
    """Width of the steps that peaks are of: a minute up to a day, five beyond it."""
    return MINUTE_S if span.seconds <= DAY_S else 5 * MINUTE_S


def reading_width_of(span: Span, newest: datetime) -> float:
    """Width of the windows that gauges are read by: the finest that is kept for so long, and no finer than needed."""
    age_s = (newest - span.start).total_seconds()
    kept = [width for width, for_s in sorted(LEVELS_S.items()) if age_s < for_s - MINUTE_S * MINUTE_S]
    finest = kept[0] if kept else max(LEVELS_S)
    wanted = WINDOW_S if span.seconds <= FINE_SPAN_S else step_of(span)
    return float(max(finest, wanted))


def whole_steps(span: Span, step_s: float) -> list[datetime]:
    """Starts of the steps that lie in the span whole; steps count from the epoch."""
    width = timedelta(seconds=step_s)
    first = datetime.fromtimestamp(-(-span.start.timestamp() // step_s) * step_s, span.start.tzinfo)
    count = max(int((span.end - first) / width), 0)
    return [first + place * width for place in range(count)]


def stalls_of(gaps: Sketch) -> float | None:
    """The share of all gaps' time that lies beyond the median gap; None of none, and of gaps that were counted in wide
    buckets."""
    if not gaps.count or gaps.total <= 0 or gaps.relative_error > 2 * RELATIVE_ERROR:
        return None
    median = gaps.quantile(0.5)
    beyond = sum(
        int(count) * max(min(upper_edge(position), gaps.maximum) - median, 0.0)
        for position, count in enumerate(gaps.counts)
        if count
    )
    return min(beyond / gaps.total, 1.0)


def findable(prompts: Sequence[tuple[int, Sequence[int]]], block_size: int) -> float | None:
    """The share of prompt tokens that stand in blocks which an earlier prompt began with, too: what a cache without
    bounds, shared by all nodes, would have found. prompts: tokens, and ids of their blocks, in the order of arrival.
    None where no prompt has an id."""
    seen: set[int] = set()
    tokens = found = 0
    for length, blocks in prompts:
        tokens += length
        for block in blocks:
            if block not in seen:
                break
            found += block_size
        seen.update(blocks)
    return min(found / tokens, 1.0) if seen and tokens else None
