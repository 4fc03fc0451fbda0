"""What a history is made of, read from telemetry for one pool or for many at once.

Guarantee: a pool's material is the same whether it was read by itself or with others; counts above a bucket edge are
exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.contract.metrics import E2E, NODE, POOL, PROMPT_BUCKET, REQUESTS, RUNNING, TTFT, WAITING, WINDOW_S
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span, TelemetryReader, ValueSeries, Where

_BY_BUCKET, _BY_NODE = (POOL.label, PROMPT_BUCKET.label), (POOL.label, NODE.label)


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

    tails: metric (short name) to prompt bucket to histogram; finished: requests by node; in_flight: requests that run
    or wait, by node.
    """

    tails: dict[float, dict[str, dict[str, Tail]]] = field(default_factory=dict)
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
    return found


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
