"""What one simulated node reports: 60 exponential histograms (12 metrics of 5 label sets) and 40 gauges.

The values of a histogram are lognormal (sigma 0.35) around a median of its metric and label set; every third metric has
a second mode. Buckets are drawn as independent Poisson counts, which is what a Poisson number of such values gives.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, SCALE
from controlplane.contract.metrics import CacheClass, Metric, MetricKind

MEDIANS_S: dict[Metric, float] = {
    metrics.TTFT: 0.21,
    metrics.TPOT: 0.018,
    metrics.E2E: 2.4,
    metrics.ITL: 0.016,
    metrics.RECEIVE: 0.0004,
    metrics.TOKENIZE: 0.0012,
    metrics.QUEUE: 0.03,
    metrics.PREFILL: 0.15,
    metrics.DECODE: 2.1,
    metrics.SEND: 0.0003,
    metrics.UNACCOUNTED: 0.0001,
    metrics.STEP_FORWARD: 0.014,
}
HISTOGRAMS: tuple[Metric, ...] = tuple(MEDIANS_S)
_KNOWN_GAUGES = (metrics.KV_USAGE, metrics.RUNNING, metrics.WAITING, metrics.SPOOL_DEPTH)
GAUGES: tuple[str, ...] = (
    *(gauge.name for gauge in _KNOWN_GAUGES),
    *(f"tailwright.bench.gauge_{number:02}" for number in range(40 - len(_KNOWN_GAUGES))),
)
BUCKETS = metrics.PROMPT_BUCKETS[:5]
MODEL, REVISION = "llama-3.3-70b", "3"
LABELS: tuple[dict[str, str], ...] = (
    *(
        {
            metrics.MODEL.name: MODEL,
            metrics.REVISION.name: REVISION,
            metrics.PROMPT_BUCKET.name: bucket,
            metrics.CACHE_CLASS.name: CacheClass.MISS.value,
        }
        for bucket in BUCKETS
    ),
    {metrics.MODEL.name: MODEL, metrics.REVISION.name: REVISION},
)
"""Attributes as on the wire; the last set is that of the gauges."""
SERIES = len(HISTOGRAMS) * len(BUCKETS)
SIGMA = 0.35
MODE_FACTOR, MODE_SHARE = 6.0, 0.15
"""The second mode of every third metric: how much slower, and how many of the values."""
FEWEST, MOST = 50, 500
"""Values in one histogram of one report, log-uniform."""
NODE_SPREAD = 0.2
"""Standard deviation of a report's common factor, natural logarithm."""
LONGEST_TAIL = 1e-7


def metric_of(series: int) -> int:
    return series // len(BUCKETS)


def labels_of(series: int) -> int:
    return series % len(BUCKETS)


@dataclass(frozen=True)
class Drawn:
    """n reports of `SERIES` histograms: counts[n, SERIES, width], the first column at axis position `low`."""

    low: int
    counts: NDArray[np.int64]


class Shape:
    """The bucket probabilities of all series."""

    @cached_property
    def _probabilities(self) -> tuple[int, NDArray[np.float64]]:
        """(first axis position, p[SERIES, width])."""
        edges = (np.arange(AXIS_LENGTH + 1) + AXIS_MIN) * math.log(2.0) / 2**SCALE
        rows = np.zeros((SERIES, AXIS_LENGTH))
        for series in range(SERIES):
            for center, share in modes(series):
                below = np.array([_normal_cdf((edge - center) / SIGMA) for edge in edges])
                rows[series] += share * np.diff(below)
        rows[rows < LONGEST_TAIL] = 0.0
        used = np.flatnonzero(rows.any(axis=0))
        return int(used[0]), rows[:, used[0] : used[-1] + 1]

    def draw(self, random: np.random.Generator, reports: int) -> Drawn:
        """Counts of so many reports, each with a common factor of its own (a whole number of buckets)."""
        low, probabilities = self._probabilities
        spread = NODE_SPREAD / math.log(2.0) * 2**SCALE
        shifts = np.clip(np.round(random.normal(scale=spread, size=reports)), -4 * spread, 4 * spread).astype(np.int64)
        margin = int(4 * spread) + 1
        values = np.exp(random.uniform(math.log(FEWEST), math.log(MOST), (reports, SERIES)))
        counts = np.zeros((reports, SERIES, probabilities.shape[1] + 2 * margin), np.int64)
        # Each series has its values in a small part of the common width: only that part is drawn.
        for series in range(SERIES):
            used = np.flatnonzero(probabilities[series])
            first, last = used[0], used[-1] + 1
            drawn = random.poisson(values[:, series, None] * probabilities[series, first:last])
            columns = first + margin + shifts[:, None] + np.arange(last - first)
            counts[np.arange(reports)[:, None], series, columns] = drawn
        # No histogram of a report is empty.
        counts[:, :, probabilities.shape[1] // 2 + margin] += counts.sum(axis=2) == 0
        return Drawn(low - margin, counts)


def modes(series: int) -> list[tuple[float, float]]:
    """(natural logarithm of the median, share) of each mode of a series."""
    metric = metric_of(series)
    center = math.log(MEDIANS_S[HISTOGRAMS[metric]]) + 0.35 * labels_of(series)
    if metric % 3:
        return [(center, 1.0)]
    return [(center, 1.0 - MODE_SHARE), (center + math.log(MODE_FACTOR), MODE_SHARE)]


def values_of(random: np.random.Generator, series: int, count: int, factor: float) -> NDArray[np.float64]:
    """Raw values of a series, seconds."""
    found: NDArray[np.float64] = np.exp(random.normal(scale=SIGMA, size=count))
    several = modes(series)
    centers = np.exp([center for center, _ in several])
    chosen = random.choice(len(several), size=count, p=[share for _, share in several])
    return found * centers[chosen] * factor


def counts_of_values(values: NDArray[np.float64], owner: NDArray[np.int64], owners: int) -> NDArray[np.int64]:
    """counts[owners, AXIS_LENGTH] of raw values on the contract's axis; `owner` says whose each value is."""
    places = np.ceil(np.log2(values) * 2**SCALE).astype(np.int64) - 1 - AXIS_MIN
    places = np.clip(places, 0, AXIS_LENGTH - 1)
    counts: NDArray[np.int64] = np.bincount(owner * AXIS_LENGTH + places, minlength=owners * AXIS_LENGTH)
    return counts.reshape(owners, AXIS_LENGTH)


def table() -> dict[str, Any]:
    """Metrics and labels as a packed report's table has them."""
    named = [[metric.name, MetricKind.HISTOGRAM.value] for metric in HISTOGRAMS]
    named += [[name, MetricKind.GAUGE.value] for name in GAUGES]
    return {"metrics": named, "labels": list(LABELS)}


def _normal_cdf(value: float) -> float:
    return 0.5 * math.erfc(-value / math.sqrt(2.0))
