"""OTLP metrics requests to points in the store's form.

Guarantee: a point that cannot be kept is refused by itself, with a message that names its metric and field; all others
of the request are returned.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.contract.errors import nearest
from controlplane.contract.metrics import BY_NAME, METRICS, NODE, MetricKind
from controlplane.telemetry import histogram_point, number_point
from controlplane.telemetry.labels import Origin, Pairs, canonical, hash64, identity_of, labels_of, origin_of, pairs_of
from controlplane.telemetry.point import Point, window_of
from controlplane.telemetry.refusal import Reason, Refusals, Refused

OWN_PREFIXES = ("gen_ai.", "trimtab.")
MAX_NAME = 256
FUTURE_S = 3600
NO_RECORDED_VALUE = otlp.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK


@dataclass(frozen=True)
class Bounds:
    """The event times that are kept, in nanoseconds, and the node that the sender's token is bound to (None: any)."""

    oldest_ns: int
    newest_ns: int
    node: str | None = None


def read_points(request: ExportMetricsServiceRequest, bounds: Bounds, refusals: Refusals) -> tuple[list[Point], int]:
    """All points that can be kept, and how many points there were that say nothing (empty, or flagged so)."""
    points: list[Point] = []
    silent = 0
    for resource_metrics in request.resource_metrics:
        metrics = [(scope.scope.name, metric) for scope in resource_metrics.scope_metrics for metric in scope.metrics]
        try:
            origin = origin_of(resource_metrics.resource.attributes)
            check_node(origin, bounds)
        except Refused as refused:
            refusals.add(refused.reason, refused.message, sum(len(_data_points(metric)) for _, metric in metrics))
            continue
        known: dict[Pairs, tuple[str, bytes]] = {}
        for scope, metric in metrics:
            for point in _of_metric(scope, metric, origin, bounds, refusals, known):
                if point is None:
                    silent += 1
                else:
                    points.append(point)
    return points, silent


def check_node(origin: Origin, bounds: Bounds) -> None:
    """Raises `Refused` when the token is bound to another node than the resource names."""
    node = origin.labels.get(NODE.label)
    if bounds.node is not None and node != bounds.node:
        raise Refused(
            Reason.NODE, f"resource attribute {NODE.name}: is {node!r}, this token is bound to node {bounds.node!r}"
        )


def check_times(name: str, start_ns: int, end_ns: int, bounds: Bounds) -> None:
    if end_ns == 0:
        raise Refused(Reason.TIMESTAMP, f"{name}: time_unix_nano is missing")
    if end_ns > bounds.newest_ns:
        raise Refused(Reason.TIMESTAMP, f"{name}: time_unix_nano is more than {FUTURE_S} s in the future")
    if end_ns < bounds.oldest_ns:
        raise Refused(Reason.TIMESTAMP, f"{name}: time_unix_nano is older than what is kept")
    if start_ns > end_ns:
        raise Refused(Reason.TIMESTAMP, f"{name}: start_time_unix_nano is after time_unix_nano")


def _of_metric(
    scope: str,
    metric: otlp.Metric,
    origin: Origin,
    bounds: Bounds,
    refusals: Refusals,
    known: dict[Pairs, tuple[str, bytes]],
) -> Iterator[Point | None]:
    data_points = _data_points(metric)
    try:
        kind = _checked_kind(metric)
    except Refused as refused:
        refusals.add(refused.reason, refused.message, max(1, len(data_points)))
        return
    prefix = orjson.dumps([scope, metric.name])
    for point in data_points:
        try:
            if point.flags & NO_RECORDED_VALUE:
                yield None
                continue
            start_ns, end_ns = point.start_time_unix_nano, point.time_unix_nano
            check_times(metric.name, start_ns, end_ns, bounds)
            labels, identity = _identified(point.attributes, metric.name, origin, known)
            values = _values(metric, kind, point, refusals)
        except Refused as refused:
            refusals.add(refused.reason, refused.message)
            continue
        if values is None:
            yield None
            continue
        yield Point(
            kind,
            metric.name,
            labels,
            window_of(end_ns),
            origin.identity,
            start_ns,
            end_ns,
            hash64(prefix + identity),
            values,
        )


def _values(metric: otlp.Metric, kind: MetricKind, point: Any, refusals: Refusals) -> list[Any] | None:
    if kind is not MetricKind.HISTOGRAM:
        return number_point.values(metric.name, point, must_grow=metric.sum.is_monotonic)
    if metric.WhichOneof("data") == "exponential_histogram":
        return histogram_point.exponential(metric.name, point, refusals)
    return histogram_point.explicit(metric.name, point, refusals)


def _identified(
    attributes: Iterable[Any], name: str, origin: Origin, known: dict[Pairs, tuple[str, bytes]]
) -> tuple[str, bytes]:
    """The series key and the identity of a point's attributes; nearly all points of a report share a few of them."""
    pairs = pairs_of(attributes)
    found = known.get(pairs)
    if found is None:
        try:
            labels = {**origin.labels, **labels_of(pairs, of_resource=False)}
        except Refused as refused:
            raise Refused(refused.reason, f"{name}: {refused.message}") from None
        found = known[pairs] = (canonical(labels), identity_of(pairs))
    return found


def _data_points(metric: otlp.Metric) -> Any:
    data = metric.WhichOneof("data")
    return () if data is None else getattr(metric, data).data_points


def _checked_kind(metric: otlp.Metric) -> MetricKind:
    """What the metric is stored as. Raises `Refused` when it is not to be kept."""
    name, data = metric.name, metric.WhichOneof("data")
    if name not in BY_NAME:
        if not name.startswith(OWN_PREFIXES):
            hint = nearest(name, [known.name for known in METRICS]) if len(name) <= MAX_NAME else ""
            hint = hint if hint.startswith("did") else f"names start with {' or '.join(OWN_PREFIXES)}"
            raise Refused(Reason.METRIC, f"metric name {name[:MAX_NAME]!r} is not kept: {hint}")
        if len(name) > MAX_NAME or "\0" in name:
            raise Refused(Reason.METRIC, f"metric name {name[:40]!r}...: at most {MAX_NAME} characters, no zero byte")
    if data is None:
        raise Refused(Reason.METRIC, f"{name}: has no data field")
    if data == "summary":
        raise Refused(Reason.METRIC, f"{name}: summary is not kept (quantiles cannot be merged); send a histogram")
    kind = MetricKind.HISTOGRAM if data in ("histogram", "exponential_histogram") else MetricKind(data)
    if data != "gauge":
        temporality = getattr(metric, data).aggregation_temporality
        if data == "sum" and not metric.sum.is_monotonic and temporality == otlp.AGGREGATION_TEMPORALITY_CUMULATIVE:
            kind = MetricKind.GAUGE  # An up-down counter's running value is a gauge by another name.
        elif temporality != otlp.AGGREGATION_TEMPORALITY_DELTA:
            raise Refused(
                Reason.TEMPORALITY,
                f"{name}: aggregation_temporality must be DELTA (set "
                "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=DELTA in the sender)",
            )
    known = BY_NAME.get(name)
    if known is not None and known.kind is not kind:
        raise Refused(Reason.METRIC, f"{name}: is a {known.kind.value}, not a {data}")
    if known is not None and kind is MetricKind.HISTOGRAM and metric.unit not in ("", known.unit):
        raise Refused(Reason.METRIC, f"{name}: unit must be {known.unit!r}, not {metric.unit!r}")
    return kind
