"""What a history is made of, read from telemetry for one pool or for many at once.

Guarantee: a pool's material is the same whether it was read by itself or with others; counts above a bucket edge are
exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.windows.node_levels import BY_NODE, FEWEST_NODES, MOST_NODES, NodeLevels
from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.contract.metrics import (
    E2E,
    NODE,
    POOL,
    PREFILL,
    PROMPT_BUCKET,
    PROMPT_BUCKETS,
    PROMPT_TOKENS,
    REQUESTS,
    RUNNING,
    TTFT,
    WAITING,
    WINDOW_S,
)
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span, TelemetryReader, ValueSeries, Where

_BY_BUCKET, _BY_NODE = (POOL.label, PROMPT_BUCKET.label), (POOL.label, NODE.label)
_BY_NODE_AND_BUCKET = (*_BY_NODE, PROMPT_BUCKET.label)
CELLS_AT_ONCE = 2_500
"""Histograms in one answer: 8 kB each."""


@dataclass(frozen=True)
class Tail:
    """One histogram as the number of values at or above each bucket. tail: int64[width] from axis position `low` on.

    `relative_error` as in `Sketch`.
    """

    low: int
    tail: NDArray[np.int64]
    count: int
    relative_error: float = RELATIVE_ERROR

    @classmethod
    def of(cls, sketch: Sketch) -> "Tail":
        used = np.flatnonzero(sketch.counts)
        if used.size == 0:
            return cls(0, np.zeros(0, dtype=np.int64), sketch.zero_count, sketch.relative_error)
        low, high = int(used[0]), int(used[-1]) + 1
        tail = np.cumsum(sketch.counts[low:high][::-1])[::-1].copy()
        return cls(low, tail, sketch.zero_count + int(tail[0]), sketch.relative_error)

    def above(self, position: int) -> int:
        """As `Sketch.above`."""
        place = max(position + 1 - self.low, 0)
        return int(self.tail[place]) if place < self.tail.size else 0

    def add_to(self, counts: NDArray[np.int64]) -> None:
        """Add the bucket counts to int64[AXIS_LENGTH]."""
        if self.tail.size:
            part = counts[self.low : self.low + self.tail.size]
            part += self.tail
            part[:-1] -= self.tail[1:]


@dataclass(frozen=True)
class Material:
    """One pool, by the second at which a window begins.

    tails: metric (short name) to prompt bucket to histogram; nodes: metric to what its nodes are compared by;
    tokens: prompt tokens by prompt bucket; finished: requests by node; in_flight: requests that run or wait, by node.
    """

    tails: dict[float, dict[str, dict[str, Tail]]] = field(default_factory=dict)
    nodes: dict[float, dict[str, NodeLevels]] = field(default_factory=dict)
    tokens: dict[float, dict[str, float]] = field(default_factory=dict)
    finished: dict[float, dict[str, int]] = field(default_factory=dict)
    in_flight: dict[float, dict[str, float]] = field(default_factory=dict)


NOTHING = Material()


def read(
    telemetry: TelemetryReader, metrics: Sequence[str], where: Where, start_s: float, stop_s: float
) -> dict[str, Material]:
    """What the pools that `where` lets in had in [start_s, stop_s). A pool without latencies is absent."""
    span = Span(instant(start_s), instant(stop_s))
    found: dict[str, Material] = {}
    for metric in metrics:
        for series in telemetry.histograms(Question(metric, span, _BY_BUCKET, where, WINDOW_S)):
            material = found.setdefault(series.labels.get(POOL.label, ""), Material())
            bucket = series.labels.get(PROMPT_BUCKET.label, "")
            for time, sketch in series.steps:
                material.tails.setdefault(time.timestamp(), {}).setdefault(metric, {})[bucket] = Tail.of(sketch)
    if found:
        _read_finished(telemetry, where, span, found)
        _read_in_flight(telemetry, where, span, found)
        if PREFILL.short in metrics:
            _read_tokens(telemetry, where, span, found)
        for metric in metrics:
            if metric in BY_NODE:
                _read_nodes(telemetry, metric, where, span, found)
    return found


def _read_tokens(telemetry: TelemetryReader, where: Where, span: Span, found: Mapping[str, Material]) -> None:
    for sums in telemetry.scalars(Question(PROMPT_TOKENS.short, span, _BY_BUCKET, where, WINDOW_S)):
        material = found.get(sums.labels.get(POOL.label, ""))
        if material is not None:
            for time, value in sums.steps:
                material.tokens.setdefault(time.timestamp(), {})[sums.labels.get(PROMPT_BUCKET.label, "")] = value


def _read_nodes(
    telemetry: TelemetryReader, metric: str, where: Where, span: Span, found: Mapping[str, Material]
) -> None:
    """Of pools with few enough nodes, so many windows at once that an answer stays small."""
    nodes = {pool: set[str]().union(*one.finished.values(), *one.in_flight.values()) for pool, one in found.items()}
    compared = {pool: names for pool, names in nodes.items() if FEWEST_NODES <= len(names) <= MOST_NODES}
    if not compared:
        return
    among = {**where, POOL.label: sorted(compared)}
    rows = sum(map(len, compared.values())) * len(PROMPT_BUCKETS)
    step = timedelta(seconds=WINDOW_S * max(1, CELLS_AT_ONCE // rows))
    start = span.start
    while start < span.end:
        part = Span(start, min(start + step, span.end))
        for (pool, at_s), levels in _levels(telemetry, Question(metric, part, _BY_NODE_AND_BUCKET, among, WINDOW_S)):
            found[pool].nodes.setdefault(at_s, {})[metric] = levels
        start = part.end


def _levels(telemetry: TelemetryReader, question: Question) -> Iterator[tuple[tuple[str, float], NodeLevels]]:
    """By pool and the second at which a window begins."""
    (groups,) = telemetry.sketches([question])
    rows: dict[tuple[str, float], list[tuple[tuple[str, str], int]]] = {}
    for labels, start, end in zip(groups.labels, groups.starts, groups.starts[1:], strict=False):
        pool, *key = (labels.get(label, "") for label in _BY_NODE_AND_BUCKET)
        for row in range(start, end):
            rows.setdefault((pool, groups.times[row].timestamp()), []).append(((key[0], key[1]), row))
    for at, cells in rows.items():
        counts = groups.by_step.counts[[row for _, row in cells]]
        yield at, NodeLevels.of([key for key, _ in cells], groups.by_step.low, counts)


def filled(
    telemetry: TelemetryReader, metrics: Sequence[str], where: Where, start_s: float, stop_s: float, step_s: float
) -> set[int]:
    """The steps, counted from the epoch, in which there is anything of these metrics."""
    span = Span(instant(start_s), instant(stop_s))
    return {
        int(time.timestamp() // step_s)
        for metric in metrics
        for series in telemetry.counts(Question(metric, span, where=where, step_s=step_s))
        for time, _ in series.steps
    }


def _read_finished(telemetry: TelemetryReader, where: Where, span: Span, found: Mapping[str, Material]) -> None:
    for sums in telemetry.scalars(Question(REQUESTS.short, span, _BY_NODE, where, WINDOW_S)):
        material = found.get(sums.labels.get(POOL.label, ""))
        if material is not None:
            _count(material, sums)
    # A sender without the counter is counted by its histograms, which are a lot more to read.
    for metric in (E2E.short, TTFT.short):
        uncounted = sorted(pool for pool, material in found.items() if not material.finished)
        if not uncounted:
            return
        among = {**where, POOL.label: uncounted}
        for sums in telemetry.counts(Question(metric, span, _BY_NODE, among, WINDOW_S)):
            _count(found[sums.labels.get(POOL.label, "")], sums)


def _count(material: Material, sums: ValueSeries) -> None:
    node = sums.labels.get(NODE.label, "")
    for time, value in sums.steps:
        material.finished.setdefault(time.timestamp(), {})[node] = round(value)


def _read_in_flight(telemetry: TelemetryReader, where: Where, span: Span, found: Mapping[str, Material]) -> None:
    for metric in (RUNNING.short, WAITING.short):
        for series in telemetry.scalars(Question(metric, span, _BY_NODE, where, WINDOW_S)):
            material = found.get(series.labels.get(POOL.label, ""))
            if material is None:
                continue
            node = series.labels.get(NODE.label, "")
            for time, value in series.steps:
                at = material.in_flight.setdefault(time.timestamp(), {})
                at[node] = at.get(node, 0.0) + value


def instant(seconds: float) -> datetime:
    """Seconds since the epoch as a datetime in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
