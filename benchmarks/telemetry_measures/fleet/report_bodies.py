"""Bodies of simulated reports, made once and given another node, stream, ordinal and time by patching bytes.

Guarantee: a patched packed body is what `controlplane.contract.reports.packed_report.encode` makes of the same report,
and a patched OTLP body what the protobuf library makes of it (tests compare them).
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from benchmarks.telemetry_measures.fleet import report_shape
from benchmarks.telemetry_measures.fleet.report_shape import BUCKETS, GAUGES, HISTOGRAMS, LABELS, SERIES, Drawn
from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_MIN, SCALE, ZERO_THRESHOLD_S
from controlplane.contract.reports.packed_report import HEADER, MAGIC, SECTION

NODE_NAME, POOL_NAME = "sim-00000", "pool-0"
"""What the patches replace: names of nodes and pools have these lengths."""
_START_MARK, _END_MARK = 0x7AB1_57A7_7AB1_57A7, 0x7AB1_E2D0_7AB1_E2D0


def node_name(number: int) -> str:
    return f"sim-{number:05}"


def pool_name(number: int) -> str:
    return f"pool-{number % 10}"


@dataclass(frozen=True)
class Report:
    """Whose report it is, and the first of its windows."""

    node: int
    pool: int
    stream: bytes
    ordinal: int
    window: int


class Template(Protocol):
    """counts: values of each metric of `HISTOGRAMS` in one such report."""

    counts: NDArray[np.int64]

    def body(self, report: Report) -> bytes: ...


@dataclass(frozen=True)
class Rows:
    """The histograms of one window of one report, in order of their series; metric and labels as places in a table."""

    metric: NDArray[np.uint16]
    labels: NDArray[np.uint16]
    low: NDArray[np.uint16]
    width: NDArray[np.uint16]
    cells: NDArray[np.int64]
    total: NDArray[np.float64]
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Values of each metric."""
        of_row = np.add.reduceat(self.cells, np.cumsum(self.width, dtype=np.int64) - self.width)
        found = np.zeros(len(HISTOGRAMS), np.int64)
        np.add.at(found, self.metric, of_row)
        return found


def rows_of(drawn: Drawn, number: int, random: np.random.Generator) -> Rows:
    """Report `number` of what was drawn. Minimum and maximum lie anywhere in their buckets, the sum where it would."""
    counts = drawn.counts[number]
    occupied = counts > 0
    first = occupied.argmax(axis=1)
    last = counts.shape[1] - 1 - occupied[:, ::-1].argmax(axis=1)
    columns = np.arange(counts.shape[1])
    lower = np.exp2((drawn.low + columns + AXIS_MIN) / 2**SCALE)
    inside = np.exp2(random.random((2, len(counts))) / 2**SCALE)
    minimum, maximum = lower[first] * inside[0], lower[last] * inside[1]
    return Rows(
        metric=np.repeat(np.arange(len(HISTOGRAMS), dtype=np.uint16), len(BUCKETS)),
        labels=np.tile(np.arange(len(BUCKETS), dtype=np.uint16), len(HISTOGRAMS)),
        low=(first + drawn.low).astype(np.uint16),
        width=(last - first + 1).astype(np.uint16),
        cells=counts[(columns >= first[:, None]) & (columns <= last[:, None])],
        total=counts @ lower * np.exp2(random.normal(0.5, 0.02, len(counts)) / 2**SCALE),
        minimum=np.minimum(minimum, maximum),
        maximum=maximum,
    )


class PackedTemplate:
    """A packed report of one window for each of `sections`, `spacing` windows apart."""

    def __init__(self, sections: Sequence[Rows], gauges: NDArray[np.float64], spacing: int = 1) -> None:
        self.counts: NDArray[np.int64] = np.sum([rows.counts for rows in sections], axis=0)
        resource = {metrics.NODE.name: NODE_NAME, metrics.POOL.name: POOL_NAME}
        table = json.dumps({"resource": resource, **report_shape.table()}, separators=(",", ":")).encode()
        parts = [HEADER.pack(MAGIC, bytes(16), 0, len(table), len(sections)), table]
        self._spacing = spacing
        self._windows_at: list[int] = []
        for rows in sections:
            self._windows_at.append(sum(map(len, parts)))
            parts.extend(_section(rows, gauges))
        self._body = b"".join(parts)
        self._node_at = self._body.index(NODE_NAME.encode())
        self._pool_at = self._body.index(POOL_NAME.encode())

    def body(self, report: Report) -> bytes:
        patched = bytearray(self._body)
        patched[4:20] = report.stream
        struct.pack_into("<Q", patched, 20, report.ordinal)
        patched[self._node_at : self._node_at + len(NODE_NAME)] = node_name(report.node).encode()
        patched[self._pool_at : self._pool_at + len(POOL_NAME)] = pool_name(report.pool).encode()
        for place, at in enumerate(self._windows_at):
            struct.pack_into("<q", patched, at, report.window + place * self._spacing)
        return bytes(patched)


class OtlpTemplate:
    """The same report of one window as an OTLP protobuf request, as any OpenTelemetry sender may write it."""

    def __init__(self, rows: Rows, gauges: NDArray[np.float64]) -> None:
        self.counts = rows.counts
        self._body = _request(rows, gauges).SerializeToString()

    def body(self, report: Report) -> bytes:
        end = (report.window + 1) * metrics.WINDOW_NS
        # As our agents do it: the ordinal in the start tells two reports of one window apart.
        start = end - metrics.WINDOW_NS + report.ordinal % metrics.WINDOW_NS
        return (
            self._body.replace(_START_MARK.to_bytes(8, "little"), start.to_bytes(8, "little"))
            .replace(_END_MARK.to_bytes(8, "little"), end.to_bytes(8, "little"))
            .replace(NODE_NAME.encode(), node_name(report.node).encode(), 1)
            .replace(POOL_NAME.encode(), pool_name(report.pool).encode(), 1)
        )


def templates(seed: int, number: int, *, packed: bool, sections: int = 1, spacing: int = 1) -> list[Template]:
    """So many different reports."""
    random = np.random.default_rng([seed, 11])
    shape = report_shape.Shape()
    made: list[Template] = []
    while len(made) < number:
        drawn = shape.draw(random, 16 * sections)
        rows = [rows_of(drawn, place, random) for place in range(len(drawn.counts))]
        for first in range(0, len(rows), sections):
            gauges = random.random(len(GAUGES))
            part = rows[first : first + sections]
            made.append(PackedTemplate(part, gauges, spacing) if packed else OtlpTemplate(part[0], gauges))
    return made[:number]


def occupancy(seed: int, reports: int = 64) -> tuple[float, float, float]:
    """Means of a histogram: values, occupied buckets, buckets from the first to the last occupied."""
    random = np.random.default_rng([seed, 11])
    drawn = report_shape.Shape().draw(random, reports)
    widths = [rows_of(drawn, place, random).width.mean() for place in range(reports)]
    values = drawn.counts.sum() / (reports * SERIES)
    return float(values), float((drawn.counts > 0).sum() / (reports * SERIES)), float(np.mean(widths))


def _section(rows: Rows, gauges: NDArray[np.float64]) -> list[bytes]:
    most = int(rows.cells.max(initial=0))
    size = next(size for size in (1, 2, 4, 8) if most < 1 << (8 * size))
    none = np.zeros(0)
    return [
        SECTION.pack(0, len(rows.low), 0, len(gauges), len(rows.cells), size),
        rows.metric.astype("<u2").tobytes(),
        rows.labels.astype("<u2").tobytes(),
        rows.low.astype("<u2").tobytes(),
        rows.width.astype("<u2").tobytes(),
        np.zeros(len(rows.low), "<u8").tobytes(),
        rows.total.astype("<f8").tobytes(),
        rows.minimum.astype("<f8").tobytes(),
        rows.maximum.astype("<f8").tobytes(),
        rows.cells.astype(f"<u{size}").tobytes(),
        none.tobytes(),
        (len(HISTOGRAMS) + np.arange(len(gauges))).astype("<u2").tobytes(),
        np.full(len(gauges), len(LABELS) - 1, "<u2").tobytes(),
        gauges.astype("<f8").tobytes(),
    ]


def _request(rows: Rows, gauges: NDArray[np.float64]) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    for name, value in ((metrics.NODE.name, NODE_NAME), (metrics.POOL.name, POOL_NAME)):
        resource.resource.attributes.add(key=name).value.string_value = value
    scope = resource.scope_metrics.add()
    scope.scope.name = "tailwright.bench"
    marks = {"start_time_unix_nano": _START_MARK, "time_unix_nano": _END_MARK}
    ends = np.cumsum(rows.width, dtype=np.int64)
    by_metric: dict[int, otlp.Metric] = {}
    for row, place in enumerate(rows.metric.tolist()):
        metric = by_metric.get(place)
        if metric is None:
            metric = by_metric[place] = scope.metrics.add(name=HISTOGRAMS[place].name, unit=HISTOGRAMS[place].unit)
            metric.exponential_histogram.aggregation_temporality = otlp.AGGREGATION_TEMPORALITY_DELTA
        cells = rows.cells[ends[row] - rows.width[row] : ends[row]]
        point = metric.exponential_histogram.data_points.add(
            count=int(cells.sum()),
            sum=float(rows.total[row]),
            min=float(rows.minimum[row]),
            max=float(rows.maximum[row]),
            scale=SCALE,
            zero_threshold=ZERO_THRESHOLD_S,
            **marks,
        )
        for name, value in LABELS[int(rows.labels[row])].items():
            point.attributes.add(key=name).value.string_value = value
        point.positive.offset = int(rows.low[row]) + AXIS_MIN
        point.positive.bucket_counts.extend(cells.tolist())
    for name, value in zip(GAUGES, gauges.tolist(), strict=True):
        known = metrics.BY_NAME.get(name)
        gauge = scope.metrics.add(name=name, unit=known.unit if known else "1").gauge
        number = gauge.data_points.add(as_double=value, **marks)
        for label, text in LABELS[-1].items():
            number.attributes.add(key=label).value.string_value = text
    return request
