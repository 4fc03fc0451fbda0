"""OTLP/HTTP export of finished intervals to a collector, or to another Trimtab."""

import gzip
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from controlplane.contract.clock import Clock
from controlplane.contract.metrics import Metric
from controlplane.telemetry.export import series
from controlplane.telemetry.export.delivery import TIMEOUT_S, post
from controlplane.telemetry.export.exporter import Sent
from controlplane.telemetry.export.interval import Interval
from controlplane.telemetry.export.late import LateWatch, counts_of
from controlplane.telemetry.export.otlp_request import Scope, encode, split
from controlplane.telemetry.export.series import Portion
from controlplane.telemetry.reader import TelemetryReader

logger = logging.getLogger(__name__)

HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", "User-Agent": "trimtab"}
PATH = "/v1/metrics"
REQUEST_BYTES = 4 << 20
"""Before compression; a Trimtab takes 8 MiB, a collector 20 by default."""


class OtlpSender:
    """Implements `controlplane.telemetry.export.exporter.Sender`: delta points of each interval, some nodes a request.

    url: the collector's base or its whole metrics URL. scopes: node series, fleet series, or both.
    """

    name = "otlp"

    def __init__(
        self,
        reader: TelemetryReader,
        url: str,
        clock: Clock,
        *,
        headers: Mapping[str, str],
        scopes: Sequence[Scope],
        interval_s: int,
        http: httpx.Client | None = None,
    ) -> None:
        self.interval_s = interval_s
        self._reader = reader
        self._url = url if url.endswith(PATH) else url.rstrip("/") + PATH
        self._clock = clock
        self._headers = {**headers, **HEADERS}
        self._scopes = tuple(scopes)
        self._http = http or httpx.Client(timeout=TIMEOUT_S)
        self._late = LateWatch(reader)

    def close(self) -> None:
        self._http.close()

    def send(self, interval: Interval) -> Sent:
        points = refused = 0
        counts: Counter[Metric] = Counter()
        for scope, portion in self._portions(interval):
            if scope is self._scopes[0]:
                counts += counts_of(portion)
            request, count = encode(portion, interval, scope)
            points += count
            for part in split(request, REQUEST_BYTES):
                body = gzip.compress(part.SerializeToString(), compresslevel=1)
                refused += _refused(post(self._http, self._url, body, self._headers, self._clock))
        now = self._clock()
        self._late.sent(interval, counts, now)
        return Sent(points - refused, refused, self._late.look(now))

    def _portions(self, interval: Interval) -> Iterator[tuple[Scope, Portion]]:
        for scope in self._scopes:
            read = series.of_nodes if scope is Scope.NODE else series.of_fleet
            for portion in read(self._reader, interval):
                yield scope, portion


def _refused(answer: httpx.Response) -> int:
    """Points that the receiver says it refused while it took the others."""
    response = ExportMetricsServiceResponse()
    try:
        response.ParseFromString(answer.content)
    except DecodeError:
        return 0  # A 2xx is the acknowledgement; some receivers answer it with a page of their own.
    partial = response.partial_success
    if partial.rejected_data_points:
        logger.warning("%d points were refused: %s", partial.rejected_data_points, partial.error_message[:500])
    return int(partial.rejected_data_points)
