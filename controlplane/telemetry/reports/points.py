"""OTLP metrics requests to rows.

Guarantee: a point that cannot be kept is refused by itself, with a message that names its metric and field; all others
of the request are returned.
"""

from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from controlplane.contract.errors import BadRequest
from controlplane.telemetry.otlp.bounds import Bounds, check_origin
from controlplane.telemetry.otlp.labels import Origins
from controlplane.telemetry.otlp.metric_kind import MetricKinds
from controlplane.telemetry.otlp.otlp_view import MetricsView
from controlplane.telemetry.reports.column_builder import TableCache
from controlplane.telemetry.reports.reading import Extracted, Reading, data_points
from controlplane.telemetry.values.refusal import Refusals, Refused


class Extraction:
    """Reads requests; remembers label sets, metrics and tables from one to the next. Thread-safe."""

    def __init__(self) -> None:
        self._origins = Origins()
        self._kinds = MetricKinds()
        self._tables = TableCache()

    def read(self, body: bytes, bounds: Bounds, refusals: Refusals) -> Extracted:
        """A serialized ExportMetricsServiceRequest. Raises `BadRequest` for bytes that are none."""
        view = MetricsView()
        try:
            view.ParseFromString(body)
        except (DecodeError, ValueError, RecursionError) as error:
            name = ExportMetricsServiceRequest.DESCRIPTOR.name
            raise BadRequest(f"body: not a protobuf {name}: {error}", field="body") from error
        reading = Reading(self._kinds, bounds, refusals)
        reading.enter(view.resource_metrics)
        for resource_metrics in view.resource_metrics:
            self._resource(resource_metrics, reading)
        return reading.extracted(self._tables)

    def _resource(self, resource_metrics: Any, reading: Reading) -> None:
        resource = resource_metrics.resource
        reading.enter(resource_metrics.scope_metrics)
        try:
            origin = self._origins.of(resource)
            check_origin(origin.labels, reading.bounds)
        except Refused as refused:
            count = 0
            for scope_metrics in resource_metrics.scope_metrics:
                reading.enter(scope_metrics.metrics)
                count += sum(len(data_points(metric)[1]) for metric in scope_metrics.metrics)
            if count:
                reading.refusals.add(refused.reason, refused.message, count)
            return
        for scope_metrics in resource_metrics.scope_metrics:
            scope = scope_metrics.scope
            reading.enter(scope_metrics.metrics)
            for metric in scope_metrics.metrics:
                reading.metric(scope, metric, origin)
        self._origins.remember(resource, origin)
