"""Reports that tell for themselves whether they are counted once: each has a node and a window that no other has.

Number n is the report of node n % NODES for window n // NODES; two thirds of the nodes send packed reports, plain OTLP
the rest (half of that under our own report header). Values are few and known, so that a reader can tell for every one
how often it was counted.
"""

import hashlib
from dataclasses import dataclass

import zstandard
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_MIN, SCALE, axis_position
from controlplane.contract.metrics import WINDOW_NS, MetricKind
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import PackedHistogram, PackedNumber, PackedReport, Section

NODES = 40
SPACING = 2
"""Windows from one report of a node to its next: a step of 10 s each."""
POOL = "kills"
_BUCKETS = ("<=128", "<=512")
_LOW = axis_position(0.1)


def node_of(number: int) -> str:
    return f"sim-{number % NODES:02}"


def values_of(number: int) -> int:
    """How many values of ttft report `number` holds."""
    return 3 + number % 5


@dataclass(frozen=True)
class KillReports:
    """All reports of a run, from the window `first` on."""

    seed: int
    first: int

    def window(self, number: int) -> int:
        return self.first + number // NODES * SPACING

    def number(self, node: str, window: int) -> int:
        return (window - self.first) // SPACING * NODES + int(node.removeprefix("sim-"))

    def request(self, number: int) -> tuple[dict[str, str], bytes]:
        """Headers and body. The same number gives the same bytes."""
        form = number % NODES % 6
        if form < 4:
            body = zstandard.ZstdCompressor(level=1).compress(packed_report.encode(self._packed(number)))
            return {"Content-Type": packed_report.MEDIA_TYPE, "Content-Encoding": "zstd"}, body
        headers = {"Content-Type": "application/x-protobuf"}
        if form == 4:
            headers[packed_report.REPORT_HEADER] = packed_report.report_header(
                self._stream(number), self._ordinal(number)
            )
        return headers, self._otlp(number).SerializeToString()

    def _stream(self, number: int) -> bytes:
        return hashlib.sha256(f"kills {self.seed} {number % NODES}".encode()).digest()[:16]

    def _ordinal(self, number: int) -> int:
        return number // NODES + 1

    def _packed(self, number: int) -> PackedReport:
        kinds = ((metrics.TTFT.name, MetricKind.HISTOGRAM), (metrics.REQUESTS.name, MetricKind.SUM))
        histograms = tuple(
            PackedHistogram(0, place, _LOW, (1, count - 1), 0, 0.1 * count, 0.1, 0.102)
            for place, count in enumerate((2, values_of(number) - 2))
            if count > 0
        )
        return PackedReport(
            stream=self._stream(number),
            ordinal=self._ordinal(number),
            resource={metrics.NODE.name: node_of(number), metrics.POOL.name: POOL},
            metrics=kinds,
            labels=tuple({metrics.PROMPT_BUCKET.name: bucket} for bucket in _BUCKETS),
            sections=(Section(self.window(number), histograms, (PackedNumber(1, 0, 1.0),)),),
        )

    def _otlp(self, number: int) -> ExportMetricsServiceRequest:
        request = ExportMetricsServiceRequest()
        resource = request.resource_metrics.add()
        for name, value in ((metrics.NODE.name, node_of(number)), (metrics.POOL.name, POOL)):
            resource.resource.attributes.add(key=name).value.string_value = value
        scope = resource.scope_metrics.add()
        end = (self.window(number) + 1) * WINDOW_NS
        span = {"start_time_unix_nano": end - WINDOW_NS + self._ordinal(number), "time_unix_nano": end}
        histogram = scope.metrics.add(name=metrics.TTFT.name, unit="s").exponential_histogram
        histogram.aggregation_temporality = otlp.AGGREGATION_TEMPORALITY_DELTA
        for place, count in enumerate((2, values_of(number) - 2)):
            point = histogram.data_points.add(
                count=count, sum=0.1 * count, min=0.1, max=0.102, scale=SCALE, zero_threshold=2.0**-20, **span
            )
            point.attributes.add(key=metrics.PROMPT_BUCKET.name).value.string_value = _BUCKETS[place]
            point.positive.offset = _LOW + AXIS_MIN
            point.positive.bucket_counts.extend([1, count - 1])
        total = scope.metrics.add(name=metrics.REQUESTS.name).sum
        total.is_monotonic, total.aggregation_temporality = True, otlp.AGGREGATION_TEMPORALITY_DELTA
        total.data_points.add(as_int=1, **span)
        return request
