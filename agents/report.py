"""A sealed tally as OTLP: delta exponential histograms, sums and gauges for /v1/metrics.

What an engine tells in buckets of its own goes as it is, as a histogram with explicit bounds.

Guarantee: no two points of one node that the receiver would take for repeats (same metric, attributes, start and end)
ever come from different reports. A point's end is the end of its window, its start is the window's start plus the
report's ordinal in nanoseconds. Ordinals are counted up on disk by the spool and never used twice, so two reports that
carry parts of one window differ in it, after a restart as well; and as an ordinal stays below 5 * 10**9 (one report
each 5 s for 790 years), every point lies inside its own window. A report that is sent again is the same bytes.
"""

import math
from dataclasses import dataclass

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from agents.bucket_counts import BucketCounts
from agents.distribution import Distribution
from agents.tally import WINDOW_NS, SeriesKey, Tally, WindowTally
from controlplane.contract import metrics
from controlplane.contract.histogram import SCALE, ZERO_THRESHOLD_S
from controlplane.contract.metrics import Metric, MetricKind

SERVICE_NAME = "trimtab-agent"
SCOPE = "trimtab.agent"
_DELTA = otlp.AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA


@dataclass(frozen=True)
class NodeIdentity:
    """Whose report it is; `region` is empty where none was set."""

    node: str
    pool: str
    region: str = ""


@dataclass(frozen=True)
class AgentCounts:
    """What the agent says of itself in a report."""

    spool_depth: int = 0
    spool_dropped: int = 0


def text_attribute(name: str, value: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=value))


def int_attribute(name: str, value: int) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(int_value=value))


def resource(identity: NodeIdentity) -> Resource:
    """The OTLP resource every report of this node carries."""
    return Resource(
        attributes=[
            text_attribute(metrics.NODE.name, identity.node),
            text_attribute(metrics.POOL.name, identity.pool),
            text_attribute("service.name", SERVICE_NAME),
        ]
    )


def encode_metrics(tally: Tally, identity: NodeIdentity, ordinal: int, counts: AgentCounts) -> bytes:
    """The serialized ExportMetricsServiceRequest of a tally, under the report's ordinal."""
    request = ExportMetricsServiceRequest()
    resource_metrics = request.resource_metrics.add(resource=resource(identity))
    scope = resource_metrics.scope_metrics.add()
    scope.scope.name = SCOPE
    by_metric: dict[tuple[Metric, bool], otlp.Metric] = {}

    def target(metric: Metric, explicit: bool = False) -> otlp.Metric:
        found = by_metric.get((metric, explicit))
        if found is None:
            found = by_metric[metric, explicit] = scope.metrics.add(name=metric.name, unit=metric.unit)
            if explicit:
                found.histogram.aggregation_temporality = _DELTA
            elif metric.kind is MetricKind.HISTOGRAM:
                found.exponential_histogram.aggregation_temporality = _DELTA
            elif metric.kind is MetricKind.SUM:
                found.sum.aggregation_temporality = _DELTA
                found.sum.is_monotonic = True
        return found

    def number(metric: Metric, value: float, attributes: list[KeyValue], start: int, end: int) -> None:
        kind = target(metric)
        points = kind.gauge.data_points if metric.kind is MetricKind.GAUGE else kind.sum.data_points
        point = points.add(attributes=attributes, start_time_unix_nano=start, time_unix_nano=end)
        if isinstance(value, int):
            point.as_int = value
        else:
            point.as_double = value

    own_window = int(tally.span_start_s // metrics.WINDOW_S)
    for window_number in sorted({*tally.windows, own_window}):
        end = (window_number + 1) * WINDOW_NS
        start = end - WINDOW_NS + ordinal % WINDOW_NS
        window = tally.windows.get(window_number, WindowTally())
        for key, series in window.distributions.items():
            attributes = _attributes(key, tally.model, identity.region)
            for metric, distribution in series.items():
                points = target(metric).exponential_histogram.data_points
                points.append(_histogram_point(distribution, attributes, start, end))
        for (metric, key), buckets in window.buckets.items():
            attributes = _attributes(key, tally.model, identity.region)
            point = _bucket_point(buckets, attributes, start, end)
            target(metric, explicit=True).histogram.data_points.append(point)
        for (metric, key, reason), amount in window.sums.items():
            attributes = _attributes(key, tally.model, identity.region)
            if reason:
                attributes.append(text_attribute(metrics.FINISH_REASON.name, reason))
            number(metric, amount, attributes, start, end)
        for (metric, key), value in window.gauges.items():
            number(metric, value, _attributes(key, tally.model, identity.region), start, end)
        for revision, e2e_s in window.e2e_s.items():
            if e2e_s > 0:
                share = window.unaccounted_s[revision] / e2e_s
                attributes = _attributes((revision, "", "", ""), tally.model, identity.region)
                number(metrics.UNACCOUNTED_SHARE, share, attributes, start, end)
        if window_number == own_window:
            number(metrics.SPOOL_DEPTH, counts.spool_depth, [], start, end)
            if tally.missed:
                number(metrics.EVENTS_MISSED, tally.missed, [], start, end)
            if counts.spool_dropped:
                number(metrics.SPOOL_DROPPED, counts.spool_dropped, [], start, end)
    return request.SerializeToString()


def _attributes(key: SeriesKey, model: str, region: str) -> list[KeyValue]:
    revision, bucket, cache, tenant = key
    found = [int_attribute(metrics.REVISION.name, revision)]
    for attribute, value in (
        (metrics.MODEL, model),
        (metrics.PROMPT_BUCKET, bucket),
        (metrics.CACHE_CLASS, cache),
        (metrics.TENANT, tenant),
        (metrics.REGION, region),
    ):
        if value:
            found.append(text_attribute(attribute.name, value))
    return found


def _histogram_point(
    distribution: Distribution, attributes: list[KeyValue], start: int, end: int
) -> otlp.ExponentialHistogramDataPoint:
    offset, counts = distribution.dense()
    return otlp.ExponentialHistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=start,
        time_unix_nano=end,
        count=distribution.count,
        sum=distribution.total,
        min=distribution.minimum,
        max=distribution.maximum,
        scale=SCALE,
        zero_count=distribution.zero_count,
        zero_threshold=ZERO_THRESHOLD_S,
        positive=otlp.ExponentialHistogramDataPoint.Buckets(offset=offset, bucket_counts=counts),
    )


def _bucket_point(buckets: BucketCounts, attributes: list[KeyValue], start: int, end: int) -> otlp.HistogramDataPoint:
    """Minimum and maximum are stated only where they say more than the bounds do."""
    point = otlp.HistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=start,
        time_unix_nano=end,
        count=buckets.count,
        sum=buckets.total,
        bucket_counts=buckets.counts,
        explicit_bounds=buckets.bounds,
    )
    lower, upper = (0.0, *buckets.bounds), (*buckets.bounds, math.inf)
    occupied = [place for place, amount in enumerate(buckets.counts) if amount]
    if buckets.lowest > lower[occupied[0]]:
        point.min = buckets.lowest
    if buckets.highest < upper[occupied[-1]]:
        point.max = buckets.highest
    return point
