"""Values that reach the store after their interval was sent: once more they are looked for, and sent apart.

Guarantee: what came within `WATCHED_S` of the sending, by this process, is owed to the receiver, exactly (see
`late_points`), until it has taken it. What was sent is kept until then, compressed, up to `KEPT_BYTES`: beyond, and
after a restart, late values of that interval stay here.
"""

import gzip
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from controlplane.contract.metrics import METRICS, Metric, MetricKind
from controlplane.telemetry.forwarding.late_points import SAME, Difference, difference
from controlplane.telemetry.queries.series import Portion
from controlplane.telemetry.question import Question
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.values.timespan import Span

logger = logging.getLogger(__name__)

WATCHED_S = 600.0
KEPT_BYTES = 64 << 20
Totals = dict[Metric, float]
RequestsOf = Callable[[Span], Iterable[ExportMetricsServiceRequest]]
"""All that an interval has now, as it is sent."""


def totals_of(portion: Portion) -> Totals:
    """Values in the histograms of a portion, and the totals of its sums."""
    found: Totals = {}
    for metric, histograms in portion.histograms.items():
        found[metric] = sum(one.total.count for one in histograms)
    for metric, values in portion.values.items():
        if metric.kind is MetricKind.SUM:
            found[metric] = sum(one.value for one in values)
    return found


@dataclass
class _Sent:
    look_at: datetime
    interval: Span
    totals: Totals
    bodies: Sequence[bytes]

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.bodies))


class LateWatch:
    """Looks at each interval once more, `WATCHED_S` after it was sent."""

    def __init__(self, reader: TelemetryReader, requests_of: RequestsOf, kept_bytes: int = KEPT_BYTES) -> None:
        self.owed: deque[Difference] = deque()
        """To be sent, oldest first; whoever has sent one removes it."""
        self._reader = reader
        self._requests_of = requests_of
        self._kept_bytes = kept_bytes
        self._sent: deque[_Sent] = deque()

    def sent(self, interval: Span, totals: Totals, bodies: Sequence[bytes], now: datetime) -> None:
        """bodies: the requests, compressed by gzip, that the receiver has taken."""
        self._sent.append(_Sent(now + timedelta(seconds=WATCHED_S), interval, totals, bodies))
        kept = sum(one.nbytes for one in self._sent)
        while kept > self._kept_bytes:
            oldest = self._sent.popleft()
            kept -= oldest.nbytes
            logger.warning("what comes late of %s is not exported: too much to keep", oldest.interval.start.isoformat())

    def look(self, now: datetime) -> None:
        """Add to what is owed, of the intervals whose time has come."""
        while self._sent and self._sent[0].look_at <= now:
            one = self._sent[0]
            if self._has_grown(one):
                before = (ExportMetricsServiceRequest.FromString(gzip.decompress(body)) for body in one.bodies)
                found = difference(self._requests_of(one.interval), before)
                if found.points:
                    self.owed.append(found)
            self._sent.popleft()

    def _has_grown(self, one: _Sent) -> bool:
        """By sums over all series, which is a small part of what reading every series costs."""
        for metric in METRICS:
            if metric.kind is MetricKind.GAUGE:
                continue
            question, before = Question(metric.short, one.interval), one.totals.get(metric, 0.0)
            if metric.kind is MetricKind.HISTOGRAM:
                total: float = sum(found.total.count for found in self._reader.histograms(question))
            else:
                total = sum(found.value for found in self._reader.scalars(question))
            if total > before + SAME * abs(before):
                return True
        return False
