"""Packed reports for tests: of one node, with values drawn from a seed."""

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime

from controlplane.contract import metrics
from controlplane.contract.histogram import ZERO_THRESHOLD_S, axis_position
from controlplane.contract.metrics import MetricKind
from controlplane.contract.reports.packed_report import PackedHistogram, PackedNumber, PackedReport, Section
from controlplane.telemetry.otlp.bounds import Bounds

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WINDOW = int(NOW.timestamp()) // 5 - 1
NOW_NS = int(NOW.timestamp()) * 10**9
BOUNDS = Bounds(NOW_NS - 48 * 3600 * 10**9, NOW_NS + 3600 * 10**9)
STREAM = bytes(range(16))
HISTOGRAMS = (metrics.TTFT, metrics.TPOT, metrics.E2E, metrics.ITL)
GAUGES = (metrics.KV_USAGE, metrics.RUNNING, metrics.WAITING)
METRICS = tuple((metric.name, metric.kind) for metric in (*HISTOGRAMS, *GAUGES, metrics.OUTPUT_TOKENS))
SUM_PLACE, GAUGE_PLACE = len(METRICS) - 1, len(HISTOGRAMS)


def histogram(values: Sequence[float], metric: int = 0, labels: int = 0) -> PackedHistogram:
    """One histogram of these values, in seconds."""
    above = [axis_position(value) for value in values if value > ZERO_THRESHOLD_S]
    low = min(above, default=0)
    counts = [0] * (max(above) - low + 1 if above else 0)
    for position in above:
        counts[position - low] += 1
    return PackedHistogram(
        metric, labels, low, tuple(counts), len(values) - len(above), math.fsum(values), min(values), max(values)
    )


def report(
    ordinal: int = 1,
    *,
    stream: bytes = STREAM,
    node: str = "n1",
    window: int = WINDOW,
    label_sets: int = 2,
    per_set: int = 2,
    seed: int = 0,
    sections: Sequence[Section] | None = None,
    **resource: str,
) -> PackedReport:
    """`per_set` histograms, and each of the gauges and a sum, for each of `label_sets` prompt buckets."""
    rng = random.Random(seed)
    places = [(metric, labels) for labels in range(label_sets) for metric in range(per_set)]
    if sections is None:
        values = [[rng.lognormvariate(-2, 1) for _ in range(20)] for _ in places]
        sections = [
            Section(
                window,
                tuple(histogram(found, *place) for found, place in zip(values, places, strict=True)),
                tuple(PackedNumber(SUM_PLACE, labels, float(rng.randrange(100))) for labels in range(label_sets)),
                tuple(
                    PackedNumber(GAUGE_PLACE + i, labels, rng.random())
                    for labels in range(label_sets)
                    for i in range(len(GAUGES))
                ),
            )
        ]
    return PackedReport(
        stream,
        ordinal,
        {metrics.NODE.name: node, metrics.POOL.name: "chat", **resource},
        METRICS,
        tuple({metrics.MODEL.name: "m", metrics.PROMPT_BUCKET.name: f"<={i}"} for i in range(label_sets)),
        tuple(sections),
    )


def own_metric(i: int) -> tuple[str, MetricKind]:
    return f"tailwright.own.{i}", MetricKind.GAUGE
