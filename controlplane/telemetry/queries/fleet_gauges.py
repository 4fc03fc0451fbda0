"""The fleet's latency as gauges: what /metrics shows and what remote write sends are the same families.

Guarantee: the number of series is bounded: the `MOST_POOLS` pools with the most requests are shown, and how many were
left out is a gauge of its own. What has no data has no sample.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from controlplane.contract import metrics
from controlplane.contract.metrics import Metric
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.question import Question
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.values.timespan import Span

SPAN_S = 60
QUANTILES = (0.5, 0.95, 0.99)
MOST_POOLS = 30
WHOLE = (metrics.TTFT, metrics.TPOT, metrics.ITL, metrics.E2E)
BY_PROMPT = (metrics.TTFT, metrics.E2E)
COMPONENTS = (*metrics.REQUEST_PARTS, metrics.UNACCOUNTED)
RATES = (metrics.REQUESTS, metrics.PROMPT_TOKENS, metrics.OUTPUT_TOKENS)
LEVELS = {
    metrics.KV_USAGE: "tailwright_fleet_kv_cache_usage_ratio",
    metrics.RUNNING: "tailwright_fleet_node_requests_running",
    metrics.WAITING: "tailwright_fleet_node_requests_waiting",
}
POOL, BUCKET = metrics.POOL.label, metrics.PROMPT_BUCKET.label
_OF_SPAN = f"over the last {SPAN_S} s"


@dataclass
class Family:
    """One gauge: label names, and a value for each tuple of label values."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: list[tuple[tuple[str, ...], float]] = field(default_factory=list)


def read(reader: TelemetryReader, span: Span) -> list[Family]:
    """All families over a span. The quantile's label is `q`: Prometheus keeps `quantile` for summaries."""
    by_prompt = {metric: _sketches(reader, Question(metric.short, span, (POOL, BUCKET))) for metric in BY_PROMPT}
    sketches = {metric: _over_pools(by_prompt[metric]) for metric in BY_PROMPT}
    for metric in (*WHOLE, *COMPONENTS):
        if metric not in sketches:
            sketches[metric] = _sketches(reader, Question(metric.short, span, (POOL,)))
    counts: dict[str, int] = {}
    for found in sketches.values():
        for (pool,), sketch in found.items():
            counts[pool] = max(counts.get(pool, 0), sketch.count)
    shown = frozenset(sorted(counts, key=lambda pool: (-counts[pool], pool))[:MOST_POOLS])
    families = [*_latency(sketches, by_prompt), *_components(sketches), *_scalars(reader, span)]
    for family in families:
        family.samples = [sample for sample in family.samples if sample[0][0] in shown]
    left_out = Family("tailwright_fleet_pools_left_out", f"Pools beyond the {MOST_POOLS} busiest, not shown here.", ())
    left_out.samples.append(((), float(len(counts) - len(shown))))
    return [*families, left_out]


_Sketches = Mapping[tuple[str, ...], Sketch]


def _sketches(reader: TelemetryReader, question: Question) -> dict[tuple[str, ...], Sketch]:
    found = reader.histograms(question)
    return {tuple(one.labels.get(label, "") for label in question.by): one.total for one in found if one.total.count}


def _over_pools(found: _Sketches) -> dict[tuple[str, ...], Sketch]:
    merged: dict[tuple[str, ...], Sketch] = {}
    for (pool, _), sketch in found.items():
        merged.setdefault((pool,), Sketch()).merge(sketch)
    return merged


def _latency(sketches: Mapping[Metric, _Sketches], by_prompt: Mapping[Metric, _Sketches]) -> Iterator[Family]:
    for metric in WHOLE:
        family = Family(f"tailwright_fleet_{metric.short}_seconds", _quantile_of(metric), (POOL, "q"))
        _add_quantiles(family, sketches[metric])
        yield family
    for metric in BY_PROMPT:
        name = f"tailwright_fleet_{metric.short}_by_prompt_seconds"
        family = Family(name, f"{_quantile_of(metric)} By prompt length.", (POOL, BUCKET, "q"))
        _add_quantiles(family, by_prompt[metric])
        yield family
    values = Family("tailwright_fleet_values", f"Values behind the quantiles of a metric {_OF_SPAN}.", (POOL, "metric"))
    error = Family(
        "tailwright_fleet_relative_error_ratio",
        "Relative error bound of a metric's quantiles; large where a sender's own buckets were coarse.",
        (POOL, "metric"),
    )
    for metric, found in sketches.items():
        for (pool,), sketch in found.items():
            values.samples.append(((pool, metric.short), float(sketch.count)))
            error.samples.append(((pool, metric.short), sketch.relative_error))
    yield values
    yield error
    prompts = Family(
        "tailwright_fleet_by_prompt_values",
        f"Values behind the quantiles of a metric {_OF_SPAN}, by prompt length.",
        (POOL, BUCKET, "metric"),
    )
    for metric, found in by_prompt.items():
        prompts.samples += [((*key, metric.short), float(sketch.count)) for key, sketch in found.items()]
    yield prompts


def _components(sketches: Mapping[Metric, _Sketches]) -> Iterator[Family]:
    seconds = Family(
        "tailwright_fleet_component_seconds",
        f"Quantile q of what each part of a request took {_OF_SPAN}.",
        (POOL, "component", "q"),
    )
    share = Family(
        "tailwright_fleet_component_ratio",
        f"Share of a part of the request in the time of all requests {_OF_SPAN}.",
        (POOL, "component"),
    )
    for metric in COMPONENTS:
        short = metric.short
        _add_quantiles(seconds, sketches[metric], short)
        for key, sketch in sketches[metric].items():
            whole = sketches[metrics.E2E].get(key)
            if whole is not None and whole.total > 0:
                share.samples.append(((*key, short), sketch.total / whole.total))
    yield seconds
    yield share


def _scalars(reader: TelemetryReader, span: Span) -> Iterator[Family]:
    for metric in RATES:
        family = Family(f"tailwright_fleet_{metric.short}_per_second", f"{metric.help} Mean {_OF_SPAN}.", (POOL,))
        for one in reader.scalars(Question(metric.short, span, (POOL,))):
            family.samples.append(((one.labels.get(POOL, ""),), one.value / span.seconds))
        yield family
    for metric, name in LEVELS.items():
        family = Family(name, f"{metric.help} Mean of the pool's nodes, each one's last value.", (POOL,))
        for one in reader.scalars(Question(metric.short, span, (POOL,))):
            family.samples.append(((one.labels.get(POOL, ""),), one.value))
        yield family


def _add_quantiles(family: Family, found: _Sketches, *more: str) -> None:
    for key, sketch in found.items():
        for q in QUANTILES:
            family.samples.append(((*key, *more, str(q)), sketch.quantile(q)))


def _quantile_of(metric: Metric) -> str:
    return f"{metric.help} Quantile q {_OF_SPAN}."
