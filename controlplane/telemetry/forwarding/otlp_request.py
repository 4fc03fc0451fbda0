"""Series of an interval as an OTLP request (pure).

Guarantee: exact. The store's axis is that of OTLP's base-2 exponential histogram, so every bucket, count, sum, minimum
and maximum is sent as it is kept (delta temporality, the interval's start and end), and two encodings of the same
series are the same points: a receiver that compares resource, metric, attributes, start and end knows a repeat.
"""

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.contract.histogram import AXIS_MIN, SCALE, ZERO_THRESHOLD_S
from controlplane.contract.metrics import ATTRIBUTES, Metric, MetricKind
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.queries.series import Portion
from controlplane.telemetry.values.timespan import Span, to_ns

INSTRUMENTATION = "tailwright"
SCOPE = "tailwright.scope"
"""Resource attribute: whose the series are. Node and fleet series say the same twice; never add them up."""
SERVICE_NAME = "service.name"
DELTA = otlp.AGGREGATION_TEMPORALITY_DELTA
_RESOURCE = [attribute for attribute in ATTRIBUTES if attribute.resource]
_POINT = [attribute for attribute in ATTRIBUTES if not attribute.resource]


class Scope(StrEnum):
    NODE = "node"  # Each node's own series.
    FLEET = "fleet"  # Summed over nodes; gauges are the mean of the nodes' values.


def encode(portion: Portion, interval: Span, scope: Scope) -> tuple[ExportMetricsServiceRequest, int]:
    """The request, and how many points it has."""
    request = _Request(interval, scope)
    for metric, histograms in portion.histograms.items():
        for one in histograms:
            request.histogram(metric, one.labels, one.total)
    for metric, values in portion.values.items():
        for value in values:
            request.number(metric, value.labels, value.value)
    return request.message, request.points


def split(request: ExportMetricsServiceRequest, limit_bytes: int) -> Iterator[ExportMetricsServiceRequest]:
    """The same points in requests of about `limit_bytes`: receivers bound a body. A resource's metric stays whole."""
    if request.ByteSize() <= limit_bytes:
        yield request
        return
    part, size = ExportMetricsServiceRequest(), 0
    for resource in request.resource_metrics:
        (scope,) = resource.scope_metrics
        place: otlp.ScopeMetrics | None = None
        for metric in scope.metrics:
            if size and size + metric.ByteSize() > limit_bytes:
                yield part
                part, size, place = ExportMetricsServiceRequest(), 0, None
            if place is None:
                place = part.resource_metrics.add(resource=resource.resource).scope_metrics.add(scope=scope.scope)
            place.metrics.append(metric)
            size += metric.ByteSize()
    yield part


class _Request:
    def __init__(self, interval: Span, scope: Scope) -> None:
        self.message = ExportMetricsServiceRequest()
        self.points = 0
        self._start_ns, self._end_ns = to_ns(interval.start), to_ns(interval.end)
        self._scope = scope
        self._scopes: dict[tuple[str, ...], otlp.ScopeMetrics] = {}
        self._metrics: dict[tuple[tuple[str, ...], str], otlp.Metric] = {}

    def histogram(self, metric: Metric, labels: Mapping[str, str], sketch: Sketch) -> None:
        point = self._metric(metric, labels).exponential_histogram.data_points.add()
        self._stamp(point, labels)
        point.count, point.sum, point.zero_count = sketch.count, sketch.total, sketch.zero_count
        point.scale, point.zero_threshold = SCALE, ZERO_THRESHOLD_S
        if math.isfinite(sketch.minimum):
            point.min = sketch.minimum
        if math.isfinite(sketch.maximum):
            point.max = sketch.maximum
        occupied = np.flatnonzero(sketch.counts)
        if len(occupied):
            low, high = int(occupied[0]), int(occupied[-1]) + 1
            point.positive.offset = AXIS_MIN + low
            point.positive.bucket_counts.extend(sketch.counts[low:high].tolist())

    def number(self, metric: Metric, labels: Mapping[str, str], value: float) -> None:
        found = self._metric(metric, labels)
        point = found.sum.data_points.add() if metric.kind is MetricKind.SUM else found.gauge.data_points.add()
        self._stamp(point, labels)
        point.as_double = value

    def _stamp(
        self, point: otlp.ExponentialHistogramDataPoint | otlp.NumberDataPoint, labels: Mapping[str, str]
    ) -> None:
        self.points += 1
        point.start_time_unix_nano, point.time_unix_nano = self._start_ns, self._end_ns
        for attribute in _POINT:
            if labels.get(attribute.label):
                point.attributes.append(_text(attribute.name, labels[attribute.label]))

    def _metric(self, metric: Metric, labels: Mapping[str, str]) -> otlp.Metric:
        resource = tuple(labels.get(attribute.label, "") for attribute in _RESOURCE)
        found = self._metrics.get((resource, metric.name))
        if found is None:
            found = self._scope_of(resource).metrics.add(name=metric.name, unit=metric.unit, description=metric.help)
            if metric.kind is MetricKind.HISTOGRAM:
                found.exponential_histogram.aggregation_temporality = DELTA
            elif metric.kind is MetricKind.SUM:
                found.sum.aggregation_temporality, found.sum.is_monotonic = DELTA, True
            self._metrics[resource, metric.name] = found
        return found

    def _scope_of(self, resource: tuple[str, ...]) -> otlp.ScopeMetrics:
        scope = self._scopes.get(resource)
        if scope is None:
            added = self.message.resource_metrics.add()
            given = {SERVICE_NAME: INSTRUMENTATION, SCOPE: self._scope.value}
            given |= {attribute.name: value for attribute, value in zip(_RESOURCE, resource, strict=True) if value}
            added.resource.attributes.extend(_text(name, value) for name, value in given.items())
            scope = self._scopes[resource] = added.scope_metrics.add()
            scope.scope.name = INSTRUMENTATION
        return scope


def _text(name: str, value: str) -> KeyValue:
    item = KeyValue(key=name)
    item.value.string_value = value
    return item
