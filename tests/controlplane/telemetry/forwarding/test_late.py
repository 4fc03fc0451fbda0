"""Values that come late are sent apart: with what was sent before they are exactly what is there."""

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN
from controlplane.telemetry.forwarding.late import WATCHED_S, LateWatch, totals_of
from controlplane.telemetry.forwarding.late_points import difference
from controlplane.telemetry.forwarding.otlp_request import Scope, encode
from controlplane.telemetry.queries import series
from controlplane.telemetry.queries.series import Portion
from controlplane.telemetry.reader import SketchSeries, ValueSeries
from controlplane.telemetry.values.timespan import Span, to_ns
from tests.controlplane.telemetry.forwarding.conftest import sketch_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = Span(START, START + timedelta(minutes=1))
values = st.lists(st.sampled_from([0.0, 1e-3, 0.25, 0.26, 1.0, 4.0, 250.0]), max_size=12)
Content = dict[tuple[bytes, str, str], tuple[int, int, list[int]]]


def content(*requests: ExportMetricsServiceRequest) -> Content:
    """Count, zeros and dense buckets by series, added up over requests."""
    found: Content = {}
    for request in requests:
        for resource in request.resource_metrics:
            for metric in resource.scope_metrics[0].metrics:
                for point in metric.exponential_histogram.data_points:
                    dense = np.zeros(AXIS_LENGTH, np.int64)
                    low = point.positive.offset - AXIS_MIN
                    dense[low : low + len(point.positive.bucket_counts)] = point.positive.bucket_counts
                    assert point.count == point.zero_count + dense.sum()
                    key = (resource.resource.SerializeToString(), metric.name, str(point.attributes))
                    before = found.get(key, (0, 0, [0] * AXIS_LENGTH))
                    found[key] = (
                        before[0] + point.count,
                        before[1] + point.zero_count,
                        (np.array(before[2]) + dense).tolist(),
                    )
    return found


def request_of(by_node: dict[str, list[float]]) -> ExportMetricsServiceRequest:
    found = [SketchSeries({"node": node, "model": "m"}, sketch_of(given)) for node, given in by_node.items() if given]
    tokens = [ValueSeries({"node": node}, float(len(given))) for node, given in by_node.items() if given]
    portion = Portion({metrics.TTFT: found, metrics.E2E: found}, {metrics.OUTPUT_TOKENS: tokens})
    return encode(portion, MINUTE, Scope.NODE)[0]


@given(before=st.dictionaries(st.sampled_from("abc"), values), late=st.dictionaries(st.sampled_from("abcd"), values))
def test_sent_and_difference_are_what_is_there(before: dict[str, list[float]], late: dict[str, list[float]]) -> None:
    both = {node: before.get(node, []) + late.get(node, []) for node in before.keys() | late.keys()}
    sent, present = request_of(before), request_of(both)
    found = difference([present], [sent])
    assert content(sent, found.request) == content(present)
    assert found.values == 2 * sum(map(len, late.values()))
    late_sums = [given for given in late.values() if given]
    tokens = [
        point.as_double
        for resource in found.request.resource_metrics
        for metric in resource.scope_metrics[0].metrics
        for point in metric.sum.data_points
    ]
    assert sum(tokens) == sum(map(len, late_sums)) and found.points == 3 * len(late_sums)
    assert difference([present], [sent]).request == found.request, "the same again"
    assert not difference([present], [present]).points


def test_extremes_are_the_late_values_own() -> None:
    def point(sent: list[float], late: list[float]) -> Any:
        found = difference([request_of({"a": sent + late})], [request_of({"a": sent})]).request
        return found.resource_metrics[0].scope_metrics[0].metrics[0].exponential_histogram.data_points[0]

    inside, beyond = point([0.1, 4.0], [1.0]), point([0.1, 4.0], [0.05, 9.0])
    assert not inside.HasField("min") and not inside.HasField("max")
    assert (beyond.min, beyond.max) == (0.05, 9.0)
    assert (inside.start_time_unix_nano, inside.time_unix_nano) == (to_ns(MINUTE.start), to_ns(MINUTE.end) - 1)


def test_each_interval_is_looked_at_once_and_its_time_comes(reader: Any) -> None:
    def requests_of(interval: Span) -> Iterator[ExportMetricsServiceRequest]:
        return (encode(portion, interval, Scope.NODE)[0] for portion in series.of_nodes(reader, interval))

    reader.add("ttft", START, 0.25, node="a")
    bodies = [gzip.compress(one.SerializeToString()) for one in requests_of(MINUTE)]
    (portion,) = series.of_nodes(reader, MINUTE)
    watch, small = LateWatch(reader, requests_of), LateWatch(reader, requests_of, kept_bytes=10)
    for one in (watch, small):
        one.sent(MINUTE, totals_of(portion), bodies, MINUTE.end)
    for number in range(3):
        reader.add("ttft", START, 0.5, node=f"late-{number}")
    watch.look(MINUTE.end + timedelta(seconds=WATCHED_S - 1))
    assert not watch.owed
    for _ in range(2):
        watch.look(MINUTE.end + timedelta(seconds=WATCHED_S))
        small.look(MINUTE.end + timedelta(seconds=WATCHED_S))
    (owed,) = watch.owed
    assert (owed.points, owed.values) == (3, 3)
    assert not small.owed, "what was too much to keep is not guessed at"
