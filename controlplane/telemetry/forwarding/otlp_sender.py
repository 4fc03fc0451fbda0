"""OTLP/HTTP export of finished intervals to a collector, or to another Tailwright."""

import gzip
import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from controlplane.contract.clock import Clock
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.outgoing import ANYWHERE, Answer, new_client
from controlplane.telemetry.forwarding.attempt import DEADLINE_S, Refused, post
from controlplane.telemetry.forwarding.exporter import Sent
from controlplane.telemetry.forwarding.late import LateWatch, Totals, totals_of
from controlplane.telemetry.forwarding.otlp_request import Scope, encode, split
from controlplane.telemetry.queries import series
from controlplane.telemetry.queries.series import Portion
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.values.timespan import Span

logger = logging.getLogger(__name__)

HEADERS = {"Content-Type": PROTOBUF, "Content-Encoding": "gzip", "User-Agent": "tailwright"}
PATH = "/v1/metrics"
REQUEST_BYTES = 4 << 20
"""Before compression; a Tailwright takes 8 MiB, a collector 20 by default."""


class OtlpSender:
    """Implements `exporter.Sender`: delta points of each interval, some nodes a request.

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
        self._http = http or new_client(DEADLINE_S, ANYWHERE)  # Who starts the service names it
        self._late = LateWatch(reader, self._requests_of)

    def close(self) -> None:
        self._http.close()

    def send(self, interval: Span) -> Sent:
        now = self._clock()
        late = self._send_late(now)
        points = refused = 0
        totals: Totals = {}
        bodies: list[bytes] = []
        for scope, portion in self._portions(interval):
            if scope is self._scopes[0]:
                for metric, total in totals_of(portion).items():
                    totals[metric] = totals.get(metric, 0.0) + total
            request, count = encode(portion, interval, scope)
            points += count
            for body in _bodies(request):
                refused += _refused(post(self._http, self._url, body, self._headers, self._clock))
                bodies.append(body)
        self._late.sent(interval, totals, bodies, now)
        return Sent(points - refused + late.points, refused + late.refused, late.late)

    def _send_late(self, now: datetime) -> Sent:
        """What came after its interval was sent. It goes first: where it must wait, nothing was sent twice for it."""
        points = refused = values = 0
        self._late.look(now)
        while self._late.owed:
            owed = self._late.owed[0]
            rejected = 0
            try:
                for body in _bodies(owed.request):
                    rejected += _refused(post(self._http, self._url, body, self._headers, self._clock))
            except Refused as error:
                logger.error("%d late points are given up: %s", owed.points, error)
                rejected = owed.points
            self._late.owed.popleft()
            points, refused, values = points + owed.points - rejected, refused + rejected, values + owed.values
        return Sent(points, refused, values)

    def _requests_of(self, interval: Span) -> Iterator[ExportMetricsServiceRequest]:
        return (encode(portion, interval, scope)[0] for scope, portion in self._portions(interval))

    def _portions(self, interval: Span) -> Iterator[tuple[Scope, Portion]]:
        for scope in self._scopes:
            read = series.of_nodes if scope is Scope.NODE else series.of_fleet
            for portion in read(self._reader, interval):
                yield scope, portion


def _bodies(request: ExportMetricsServiceRequest) -> Iterator[bytes]:
    for part in split(request, REQUEST_BYTES):
        yield gzip.compress(part.SerializeToString(), compresslevel=1)


def _refused(answer: Answer) -> int:
    """Points that the receiver says it refused while it took the others."""
    response = ExportMetricsServiceResponse()
    try:
        response.ParseFromString(answer.body)
    except DecodeError:
        return 0  # A 2xx is the acknowledgement; some receivers answer it with a page of their own.
    partial = response.partial_success
    if partial.rejected_data_points:
        logger.warning("%d points were refused: %s", partial.rejected_data_points, partial.error_message[:500])
    return int(partial.rejected_data_points)
