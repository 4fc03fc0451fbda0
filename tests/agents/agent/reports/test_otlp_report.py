"""A packed report and the OTLP request made of it say the same, exactly."""

import math
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from agents.agent.reports.body import Body
from agents.agent.reports.otlp_report import request_of
from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, SCALE
from controlplane.contract.metrics import WINDOW_NS
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import PackedHistogram, PackedNumber, PackedReport, Section

METRICS = tuple((one.name, one.kind) for one in (metrics.TTFT, metrics.REQUESTS, metrics.RUNNING, metrics.E2E))
LABELS: tuple[dict[str, str], ...] = (
    {},
    {metrics.REVISION.name: "3"},
    {metrics.REVISION.name: "12", metrics.TENANT.name: "a"},
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
places = st.integers(0, len(LABELS) - 1)


@st.composite
def histograms(draw: st.DrawFn) -> PackedHistogram:
    counts = draw(st.lists(st.integers(0, 2**40), max_size=12))
    low = draw(st.integers(0, AXIS_LENGTH - len(counts)))
    return PackedHistogram(
        draw(st.sampled_from([0, 3])), draw(places), low, tuple(counts), draw(st.integers(0, 2**40)),
        draw(numbers), draw(numbers), draw(numbers),
    )  # fmt: skip


sums = st.builds(PackedNumber, st.just(1), places, st.integers(0, 2**53 - 1).map(float) | numbers)
gauges = st.builds(PackedNumber, st.just(2), places, numbers)
sections = st.builds(
    Section,
    st.integers(0, 400_000_000),
    st.lists(histograms(), max_size=4).map(tuple),
    st.lists(sums, max_size=3).map(tuple),
    st.lists(gauges, max_size=3).map(tuple),
)
reports = st.builds(
    PackedReport,
    st.binary(min_size=16, max_size=16),
    st.integers(1, 5 * 10**9 - 1),
    st.just({"service.instance.id": "node-a", "service.name": "tailwright-agent"}),
    st.just(METRICS),
    st.just(LABELS),
    st.lists(sections, max_size=3).map(tuple),
)


def text_of(value: Any) -> str:
    return value.string_value or str(value.int_value)


def points_of(request: ExportMetricsServiceRequest) -> Counter[tuple[Any, ...]]:
    """Every point as (metric, labels, start, end, what it says)."""
    found: Counter[tuple[Any, ...]] = Counter()
    for block in request.resource_metrics:
        for metric in (metric for scope in block.scope_metrics for metric in scope.metrics):
            for point in getattr(metric, metric.WhichOneof("data")).data_points:
                labels = tuple((item.key, text_of(item.value)) for item in point.attributes)
                if metric.HasField("exponential_histogram"):
                    assert (point.scale, point.count) == (
                        SCALE,
                        point.zero_count + sum(point.positive.bucket_counts),
                    )
                    filled = [
                        (point.positive.offset + place - AXIS_MIN, count)
                        for place, count in enumerate(point.positive.bucket_counts)
                        if count
                    ]
                    said: tuple[Any, ...] = (tuple(filled), point.zero_count, point.sum, point.min, point.max)
                else:
                    said = (point.as_int if point.HasField("as_int") else point.as_double,)
                found[metric.name, labels, point.start_time_unix_nano, point.time_unix_nano, said] += 1
    return found


def points_in(report: PackedReport) -> Counter[tuple[Any, ...]]:
    """The same of a packed report, by the definition of its layout."""
    found: Counter[tuple[Any, ...]] = Counter()
    for section in report.sections:
        start = section.window * WINDOW_NS + report.ordinal
        for one in section.histograms:
            filled = tuple((one.low + place, count) for place, count in enumerate(one.counts) if count)
            said: tuple[Any, ...] = (filled, one.zero, one.total, one.minimum, one.maximum)
            labels = tuple(report.labels[one.labels].items())
            found[report.metrics[one.metric][0], labels, start, (section.window + 1) * WINDOW_NS, said] += 1
        for number in (*section.sums, *section.gauges):
            labels = tuple(report.labels[number.labels].items())
            found[
                report.metrics[number.metric][0], labels, start, (section.window + 1) * WINDOW_NS, (number.value,)
            ] += 1
    return found


@given(reports)
def test_packed_and_otlp_say_the_same(report: PackedReport) -> None:
    # As the shipper does it: the packed bytes are what lies in the spool.
    packed = packed_report.decode(Body.packed(packed_report.encode(report)).decoded())
    assert packed == report
    request = request_of(packed)
    assert points_of(ExportMetricsServiceRequest.FromString(request.SerializeToString())) == points_in(report)
    assert request.SerializeToString() == request_of(report).SerializeToString()


def kinds_of(request: ExportMetricsServiceRequest) -> dict[str, Any]:
    return {metric.name: metric for metric in request.resource_metrics[0].scope_metrics[0].metrics}


def test_each_metric_goes_as_what_it_is() -> None:
    histogram = PackedHistogram(0, 1, 500, (1, 2), 3, 0.5, 0.0, 0.4)
    section = Section(7, (histogram,), (PackedNumber(1, 0, 5.0),), (PackedNumber(2, 0, 2.0),))
    found = kinds_of(request_of(PackedReport(bytes(16), 1, {}, METRICS, LABELS, (section,))))
    assert set(found) == {metrics.TTFT.name, metrics.REQUESTS.name, metrics.RUNNING.name}  # E2E has no points.
    assert found[metrics.TTFT.name].unit == "s"
    assert found[metrics.TTFT.name].exponential_histogram.aggregation_temporality == 1
    assert (
        found[metrics.REQUESTS.name].sum.aggregation_temporality == 1 and found[metrics.REQUESTS.name].sum.is_monotonic
    )
    assert found[metrics.REQUESTS.name].sum.data_points[0].as_int == 5
    assert found[metrics.RUNNING.name].gauge.data_points[0].as_double == 2.0
    (attribute,) = found[metrics.TTFT.name].exponential_histogram.data_points[0].attributes
    assert attribute.value.int_value == 3


def test_a_sum_that_is_no_integer_stays_what_it_is() -> None:
    values = [0.5, 2.0**60, -1.25]
    section = Section(7, (), tuple(PackedNumber(1, 0, value) for value in values), ())
    found = kinds_of(request_of(PackedReport(bytes(16), 1, {}, METRICS, LABELS, (section,))))
    assert [point.as_double for point in found[metrics.REQUESTS.name].sum.data_points] == values
    assert all(math.isfinite(point.as_double) for point in found[metrics.REQUESTS.name].sum.data_points)
