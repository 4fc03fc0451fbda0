"""What an interval has beyond what was sent of it, as delta points of their own (pure).

Guarantee: what was sent and the difference add up to what is there now: counts and buckets exactly, sums as floating
point does. A point of the difference ends a nanosecond before the interval does, so that a receiver that knows repeats
by start and end takes it for a new one; sent again, it is the same point. Gauges have no difference.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

SAME = 1e-9
"""Two sums of the same values in another order differ by less, relatively."""
Key = tuple[bytes, str, tuple[tuple[str, str], ...]]
_Point = otlp.ExponentialHistogramDataPoint | otlp.NumberDataPoint


class Difference(NamedTuple):
    """values: of the histograms among the points."""

    request: ExportMetricsServiceRequest
    points: int
    values: int


def difference(
    present: Iterable[ExportMetricsServiceRequest], sent: Iterable[ExportMetricsServiceRequest]
) -> Difference:
    """Both are of one interval, as `otlp_request.encode` makes them."""
    known = {key: point for request in sent for key, _, point in _points(request)}
    late = ExportMetricsServiceRequest()
    places: dict[bytes, otlp.ScopeMetrics] = {}
    metrics: dict[tuple[bytes, str], otlp.Metric] = {}
    points = values = 0
    for request in present:
        for key, (resource, scope, metric), point in _points(request):
            found = _beyond(point, known.get(key))
            if found is None:
                continue
            if key[0] not in places:
                added = late.resource_metrics.add(resource=resource.resource)
                places[key[0]] = added.scope_metrics.add(scope=scope.scope)
            if key[:2] not in metrics:
                metrics[key[:2]] = places[key[0]].metrics.add(
                    name=metric.name, unit=metric.unit, description=metric.description
                )
            points += 1
            to = metrics[key[:2]]
            if isinstance(found, otlp.ExponentialHistogramDataPoint):
                values += found.count
                to.exponential_histogram.aggregation_temporality = metric.exponential_histogram.aggregation_temporality
                to.exponential_histogram.data_points.append(found)
            else:
                to.sum.aggregation_temporality = metric.sum.aggregation_temporality
                to.sum.is_monotonic = metric.sum.is_monotonic
                to.sum.data_points.append(found)
    return Difference(late, points, values)


def _points(
    request: ExportMetricsServiceRequest,
) -> Iterable[tuple[Key, tuple[otlp.ResourceMetrics, otlp.ScopeMetrics, otlp.Metric], _Point]]:
    """Every histogram's and sum's point, with who it is and where it stands."""
    for resource in request.resource_metrics:
        whose = resource.resource.SerializeToString(deterministic=True)
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                points: list[_Point] = [*metric.exponential_histogram.data_points, *metric.sum.data_points]
                for point in points:
                    labels = tuple(sorted((item.key, item.value.string_value) for item in point.attributes))
                    yield (whose, metric.name, labels), (resource, scope, metric), point


def _beyond(present: _Point, sent: _Point | None) -> _Point | None:
    """The point's difference; None where there is none."""
    made = type(present)()
    made.CopyFrom(present)  # type: ignore[arg-type]
    made.time_unix_nano -= 1
    if sent is None:
        return made
    if isinstance(made, otlp.NumberDataPoint):
        assert isinstance(sent, otlp.NumberDataPoint)
        made.as_double -= sent.as_double
        return made if made.as_double > SAME * abs(sent.as_double) else None
    assert isinstance(sent, otlp.ExponentialHistogramDataPoint)
    if made.count <= sent.count:
        return None
    made.count -= sent.count
    made.zero_count -= sent.zero_count
    made.sum -= sent.sum
    # An extreme that was there before says nothing of the late values.
    if sent.HasField("min") and made.min >= sent.min:
        made.ClearField("min")
    if sent.HasField("max") and made.max <= sent.max:
        made.ClearField("max")
    _subtract(made.positive, sent.positive)
    return made


def _subtract(
    made: otlp.ExponentialHistogramDataPoint.Buckets, sent: otlp.ExponentialHistogramDataPoint.Buckets
) -> None:
    if not sent.bucket_counts:
        return
    counts = np.array(made.bucket_counts, np.int64)
    first = sent.offset - made.offset
    counts[first : first + len(sent.bucket_counts)] -= np.array(sent.bucket_counts, np.int64)
    occupied = np.flatnonzero(counts)
    low, high = (int(occupied[0]), int(occupied[-1]) + 1) if len(occupied) else (0, 0)
    made.offset += low
    del made.bucket_counts[:]
    made.bucket_counts.extend(counts[low:high].tolist())
