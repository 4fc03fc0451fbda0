"""A process to be killed: ingests report after report and prints the number of each one that was acknowledged.

Arguments: database URL, first report, one past the last report. Compaction runs all the while. Reports are one window
each, so that a reader can tell for every single one how often it was counted; every other one is packed.
"""

import hashlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_MIN
from controlplane.contract.metrics import MetricKind
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import PackedHistogram, PackedNumber, PackedReport, Section
from controlplane.db.database import Database
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_metrics, ingest_packed

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
THREADS = 4
STREAM_LENGTH = 256
"""Reports of one stream: all are sent again at the end, and a store remembers so many and more."""
OFFSET = -110


def packed(number: int) -> bytes:
    histogram = PackedHistogram(0, 0, OFFSET - AXIS_MIN, (1, 2), 0, 0.286, 0.094, 0.096)
    report = PackedReport(
        stream=hashlib.sha256(f"stream {number // STREAM_LENGTH}".encode()).digest()[:16],
        ordinal=number % STREAM_LENGTH + 1,
        resource={metrics.NODE.name: "n1"},
        metrics=((metrics.TTFT.name, MetricKind.HISTOGRAM), (metrics.REQUESTS.name, MetricKind.SUM)),
        labels=({},),
        sections=(Section(int(START.timestamp()) // 5 + number, (histogram,), (PackedNumber(1, 0, 1.0),)),),
    )
    return packed_report.encode(report)


def request(number: int) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    resource.resource.attributes.add(key=metrics.NODE.name).value.string_value = "n1"
    scope = resource.scope_metrics.add()
    span = {
        "start_time_unix_nano": (int(START.timestamp()) + 5 * number) * 10**9,
        "time_unix_nano": (int(START.timestamp()) + 5 * number + 5) * 10**9,
    }
    total = scope.metrics.add(name=metrics.REQUESTS.name).sum
    total.is_monotonic, total.aggregation_temporality = True, otlp.AGGREGATION_TEMPORALITY_DELTA
    total.data_points.add(as_int=1, **span)
    histogram = scope.metrics.add(name=metrics.TTFT.name, unit="s").exponential_histogram
    histogram.aggregation_temporality = otlp.AGGREGATION_TEMPORALITY_DELTA
    point = histogram.data_points.add(count=3, sum=0.286, scale=5, **span)
    point.positive.offset = OFFSET
    point.positive.bucket_counts.extend([1, 2])
    return request


def ingest(store: TelemetryStore, number: int) -> tuple[int, int]:
    """Points accepted and points recognised as repeats, once the report is on the disk."""
    outcome = ingest_packed(store, packed(number)) if number % 2 else ingest_metrics(store, request(number))
    return outcome.accepted, outcome.repeated


def clock() -> datetime:
    return START + timedelta(hours=2)


def main(url: str, first: int, last: int) -> None:
    store = TelemetryStore(Database(url), clock)
    store.start()
    printing = threading.Lock()

    def send(number: int) -> None:
        accepted, repeated = ingest(store, number)
        assert accepted + repeated == 2
        with printing:
            print(number, flush=True)

    def compact() -> None:
        while True:
            store.tick(clock() + timedelta(hours=1))

    threading.Thread(target=compact, daemon=True).start()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(send, range(first, last)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
