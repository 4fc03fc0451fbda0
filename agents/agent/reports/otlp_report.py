"""A packed report as the OTLP request that says the same, for any receiver of OpenTelemetry metrics.

Guarantees: the same packed report always gives the same bytes. No two points of one node that a receiver would take for
repeats (same metric, attributes, start and end) ever come from different reports: a point's end is the end of its
window, its start is the window's start plus the report's ordinal in nanoseconds. The spool never uses an ordinal twice,
so two reports that carry parts of one window differ in it, after a restart as well; and as an ordinal stays below
5 * 10**9 (one report each 5 s for 790 years), every point lies inside its own window.

What an engine tells in buckets of its own has no place in a packed report; `add_buckets` puts it beside, as a histogram
with explicit bounds.
"""

import math
from collections.abc import Mapping

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from agents.agent.reports.bucket_counts import BucketCounts
from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_MIN, SCALE, ZERO_THRESHOLD_S
from controlplane.contract.metrics import Metric, MetricKind
from controlplane.contract.reports.packed_report import PackedHistogram, PackedNumber, PackedReport

SCOPE = "tailwright.agent"
_DELTA = otlp.AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
_LARGEST_EXACT = 2.0**53
"""Beyond it a float is not every integer any more."""


def text_attribute(name: str, value: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=value))


def int_attribute(name: str, value: int) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(int_value=value))


def resource(attributes: Mapping[str, str]) -> Resource:
    """The OTLP resource with these attributes."""
    return Resource(attributes=[text_attribute(name, value) for name, value in attributes.items()])


def request_of(report: PackedReport) -> ExportMetricsServiceRequest:
    """The whole report. Metrics of which it has no points are left out."""
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add(resource=resource(report.resource)).scope_metrics.add()
    scope.scope.name = SCOPE
    labels = [_attributes(one) for one in report.labels]
    by_place = {}
    for place, (name, kind) in enumerate(report.metrics):
        known = metrics.BY_NAME.get(name)
        made = otlp.Metric(name=name, unit="" if known is None else known.unit)
        if kind is MetricKind.HISTOGRAM:
            made.exponential_histogram.aggregation_temporality = _DELTA
        elif kind is MetricKind.SUM:
            made.sum.aggregation_temporality = _DELTA
            made.sum.is_monotonic = True
        by_place[place] = made
    for section in report.sections:
        start, end = span_ns(section.window, report.ordinal)
        for histogram in section.histograms:
            points = by_place[histogram.metric].exponential_histogram.data_points
            points.append(_histogram_point(histogram, labels[histogram.labels], start, end))
        for number in section.sums:
            point = _number_point(number, labels[number.labels], start, end)
            if number.value.is_integer() and abs(number.value) < _LARGEST_EXACT:
                point.as_int = int(number.value)
            by_place[number.metric].sum.data_points.append(point)
        for number in section.gauges:
            point = _number_point(number, labels[number.labels], start, end)
            by_place[number.metric].gauge.data_points.append(point)
    scope.metrics.extend(made for made in by_place.values() if _has_points(made))
    return request


def add_buckets(
    request: ExportMetricsServiceRequest,
    metric: Metric,
    labels: Mapping[str, str],
    buckets: BucketCounts,
    window: int,
    ordinal: int,
) -> None:
    """Put an engine's own histogram of one window into a request that `request_of` has made."""
    found = request.resource_metrics[0].scope_metrics[0].metrics
    target = next((one for one in found if one.name == metric.name and one.HasField("histogram")), None)
    if target is None:
        target = found.add(name=metric.name, unit=metric.unit)
        target.histogram.aggregation_temporality = _DELTA
    start, end = span_ns(window, ordinal)
    target.histogram.data_points.append(_bucket_point(buckets, _attributes(labels), start, end))


def span_ns(window: int, ordinal: int) -> tuple[int, int]:
    """(start, end) of the points of a window in the report with this ordinal."""
    end = (window + 1) * metrics.WINDOW_NS
    return end - metrics.WINDOW_NS + ordinal % metrics.WINDOW_NS, end


def _attributes(labels: Mapping[str, str]) -> list[KeyValue]:
    return [
        int_attribute(name, int(value)) if name == metrics.REVISION.name else text_attribute(name, value)
        for name, value in labels.items()
    ]


def _has_points(metric: otlp.Metric) -> bool:
    kind = metric.WhichOneof("data")
    return kind is not None and bool(getattr(metric, kind).data_points)


def _number_point(number: PackedNumber, attributes: list[KeyValue], start: int, end: int) -> otlp.NumberDataPoint:
    return otlp.NumberDataPoint(
        attributes=attributes, start_time_unix_nano=start, time_unix_nano=end, as_double=number.value
    )


def _histogram_point(
    histogram: PackedHistogram, attributes: list[KeyValue], start: int, end: int
) -> otlp.ExponentialHistogramDataPoint:
    return otlp.ExponentialHistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=start,
        time_unix_nano=end,
        count=histogram.zero + sum(histogram.counts),
        sum=histogram.total,
        min=histogram.minimum,
        max=histogram.maximum,
        scale=SCALE,
        zero_count=histogram.zero,
        zero_threshold=ZERO_THRESHOLD_S,
        positive=otlp.ExponentialHistogramDataPoint.Buckets(
            offset=histogram.low + AXIS_MIN if histogram.counts else 0, bucket_counts=histogram.counts
        ),
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
