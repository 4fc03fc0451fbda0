"""What is sent as OTLP is what is kept: bucket for bucket, and the same bytes each time."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.contract import metrics
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, SCALE, ZERO_THRESHOLD_S
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.forwarding.otlp_request import SCOPE, Scope, encode, split
from controlplane.telemetry.queries import series
from controlplane.telemetry.queries.series import NODES_AT_ONCE, Portion
from controlplane.telemetry.reader import SketchSeries, ValueSeries
from controlplane.telemetry.values.timespan import Span

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = Span(START, START + timedelta(minutes=1))

counts = st.dictionaries(st.integers(0, AXIS_LENGTH - 1), st.integers(1, 2**40), max_size=20)
sketches = st.builds(
    lambda cells, zero, total, low, high: Sketch(_dense(cells), zero, total, low, high),
    counts,
    st.integers(0, 2**40),
    st.floats(0, 1e12),
    st.floats(0, 10) | st.just(math.inf),
    st.floats(10, 1e6) | st.just(-math.inf),
)


def _dense(cells: Mapping[int, int]) -> Any:
    found = np.zeros(AXIS_LENGTH, np.int64)
    for position, count in cells.items():
        found[position] = count
    return found


def read_back(point: otlp.ExponentialHistogramDataPoint) -> Sketch:
    assert (point.scale, point.zero_threshold) == (SCALE, ZERO_THRESHOLD_S)
    found = Sketch(zero_count=point.zero_count, total=point.sum)
    low = point.positive.offset - AXIS_MIN
    found.counts[low : low + len(point.positive.bucket_counts)] = point.positive.bucket_counts
    found.minimum = point.min if point.HasField("min") else math.inf
    found.maximum = point.max if point.HasField("max") else -math.inf
    assert point.count == found.count
    return found


@given(sketches)
def test_a_histogram_arrives_bucket_for_bucket(sketch: Sketch) -> None:
    portion = Portion(histograms={metrics.TTFT: [SketchSeries({"node": "n", "pool": "p", "model": "m"}, sketch)]})
    request, points = encode(portion, MINUTE, Scope.NODE)
    parsed = ExportMetricsServiceRequest.FromString(request.SerializeToString())
    assert points == 1 and encode(portion, MINUTE, Scope.NODE)[0].SerializeToString() == request.SerializeToString()
    (metric,) = parsed.resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.unit) == (metrics.TTFT.name, "s")
    assert metric.exponential_histogram.aggregation_temporality == otlp.AGGREGATION_TEMPORALITY_DELTA
    (point,) = metric.exponential_histogram.data_points
    found = read_back(point)
    assert np.array_equal(found.counts, sketch.counts)
    assert (found.zero_count, found.total) == (sketch.zero_count, sketch.total)
    assert (found.minimum, found.maximum) == (sketch.minimum, sketch.maximum)
    assert point.start_time_unix_nano == 1772366400 * 10**9
    assert point.time_unix_nano == point.start_time_unix_nano + 60 * 10**9


def test_labels_become_attributes_again_and_lacking_ones_stay_away() -> None:
    labels = {"node": "n", "pool": "p", "revision": "3", "model": ""}
    portion = Portion(values={metrics.KV_USAGE: [ValueSeries(labels, 0.5)], metrics.REQUESTS: [ValueSeries({}, 7.0)]})
    request, points = encode(portion, MINUTE, Scope.FLEET)
    assert points == 2
    mine, nobodys = request.resource_metrics
    attributes = {item.key: item.value.string_value for item in mine.resource.attributes}
    assert attributes[metrics.NODE.name] == "n" and attributes[metrics.POOL.name] == "p"
    assert attributes[SCOPE] == "fleet"
    (gauge,) = mine.scope_metrics[0].metrics
    (point,) = gauge.gauge.data_points
    assert {item.key: item.value.string_value for item in point.attributes} == {metrics.REVISION.name: "3"}
    assert point.as_double == 0.5
    assert metrics.NODE.name not in {item.key for item in nobodys.resource.attributes}
    (total,) = nobodys.scope_metrics[0].metrics
    assert total.sum.is_monotonic and total.sum.aggregation_temporality == otlp.AGGREGATION_TEMPORALITY_DELTA


def test_many_nodes_come_in_portions_and_each_value_once(make_reader: Callable[..., Any]) -> None:
    nodes = [f"n{number:04d}" for number in range(2 * NODES_AT_ONCE + 5)]
    reader = make_reader(most_rows=len(nodes) + 1)
    for node in nodes:
        reader.add("ttft", START, 0.25, node=node, pool="p")
        reader.add("output_tokens", START, 3.0, node=node, pool="p")
    reader.add("ttft", MINUTE.end, 0.25, node="later", pool="p")
    reader.add("ttft", START, 0.5, pool="p")
    portions = list(series.of_nodes(reader, MINUTE))
    assert len(portions) == 3
    found = [one.labels["node"] for portion in portions for one in portion.histograms[metrics.TTFT]]
    assert sorted(found) == ["", *nodes]
    (fleet,) = series.of_fleet(reader, MINUTE)
    (whole,) = fleet.histograms[metrics.TTFT]
    assert whole.total.count == len(nodes) + 1 and "node" not in whole.labels
    assert fleet.values[metrics.OUTPUT_TOKENS][0].value == 3.0 * len(nodes)
    assert list(series.of_nodes(make_reader(), MINUTE)) == []


def test_nodes_with_more_series_than_one_answer_holds_come_fewer_at_a_time(make_reader: Callable[..., Any]) -> None:
    reader = make_reader(most_rows=40)
    for node in range(30):
        for tenant in range(7):
            reader.add("ttft", START, 0.25, node=f"n{node:02d}", tenant=f"t{tenant}")
    portions = list(series.of_nodes(reader, MINUTE))
    found = [tuple(one.labels.values()) for portion in portions for one in portion.histograms[metrics.TTFT]]
    assert len(found) == len(set(found)) == 210
    with pytest.raises(BadRequest):
        list(series.of_nodes(make_reader({"ttft": reader.points["ttft"][:7]}, most_rows=6), MINUTE))


@given(st.integers(1, 40_000))
def test_a_request_is_split_and_every_point_is_in_one_part(limit_bytes: int) -> None:
    sketch = Sketch(counts=_dense({position: 1 for position in range(400, 600)}))
    labels = [{"node": f"n{number}", "pool": "p"} for number in range(8)]
    portion = Portion(
        histograms={
            metric: [SketchSeries(one, sketch) for one in labels]
            for metric in (metrics.TTFT, metrics.E2E, metrics.QUEUE)
        }
    )
    request, points = encode(portion, MINUTE, Scope.NODE)
    parts = list(split(request, limit_bytes))
    largest = max(
        metric.ByteSize() for resource in request.resource_metrics for metric in resource.scope_metrics[0].metrics
    )
    overhead = 200 * len(labels)
    assert all(part.ByteSize() <= max(limit_bytes, largest) + overhead for part in parts)

    def found(message: ExportMetricsServiceRequest) -> list[tuple[str, bytes]]:
        return [
            (resource.resource.SerializeToString(), metric.SerializeToString())
            for resource in message.resource_metrics
            for metric in resource.scope_metrics[0].metrics
        ]

    assert [one for part in parts for one in found(part)] == found(request)
    assert points == 24 and all(found(part) for part in parts)
