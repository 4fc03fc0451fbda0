import numpy as np
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from benchmarks.telemetry_measures import classic_buckets
from benchmarks.telemetry_measures.fleet import report_bodies, report_shape
from benchmarks.telemetry_measures.fleet.report_bodies import Report, templates
from benchmarks.telemetry_measures.fleet.report_shape import GAUGES, HISTOGRAMS, SERIES
from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_LENGTH, axis_position
from controlplane.contract.reports import packed_report

REPORT = Report(node=42, pool=5, stream=bytes(range(16)), ordinal=77, window=350_000_000)


def test_a_packed_body_is_what_the_contract_encodes() -> None:
    body = templates(1, 1, packed=True)[0].body(REPORT)

    report = packed_report.decode(body)

    assert packed_report.encode(report) == body
    assert (report.stream, report.ordinal) == (REPORT.stream, 77)
    assert report.resource == {metrics.NODE.name: "sim-00042", metrics.POOL.name: "pool-5"}
    (section,) = report.sections
    assert (section.window, len(section.histograms), len(section.gauges)) == (350_000_000, SERIES, len(GAUGES))


def test_the_stated_counts_are_those_in_the_body() -> None:
    for template in templates(3, 5, packed=True):
        (section,) = packed_report.decode(template.body(REPORT)).sections
        counted = np.zeros(len(HISTOGRAMS), np.int64)
        for histogram in section.histograms:
            counted[histogram.metric] += sum(histogram.counts)
            assert 0 < histogram.minimum <= histogram.maximum
            assert histogram.counts[0] and histogram.counts[-1]
            assert histogram.low == axis_position(histogram.minimum)
            assert histogram.low + len(histogram.counts) - 1 == axis_position(histogram.maximum)
        assert counted.tolist() == template.counts.tolist()


def test_sections_are_spaced_as_asked() -> None:
    body = templates(1, 1, packed=True, sections=3, spacing=2)[0].body(REPORT)

    assert [section.window - REPORT.window for section in packed_report.decode(body).sections] == [0, 2, 4]


def test_an_otlp_body_says_the_same_report() -> None:
    template = templates(1, 1, packed=False)[0]
    request = ExportMetricsServiceRequest.FromString(template.body(REPORT))

    (resource,) = request.resource_metrics
    assert {item.key: item.value.string_value for item in resource.resource.attributes} == {
        metrics.NODE.name: "sim-00042",
        metrics.POOL.name: "pool-5",
    }
    (scope,) = resource.scope_metrics
    counted = [sum(point.count for point in metric.exponential_histogram.data_points) for metric in scope.metrics[:12]]
    assert counted == template.counts.tolist()
    ends = {point.time_unix_nano for metric in scope.metrics[:12] for point in metric.exponential_histogram.data_points}
    ends |= {point.time_unix_nano for metric in scope.metrics[12:] for point in metric.gauge.data_points}
    assert ends == {(REPORT.window + 1) * 5 * 10**9}
    assert len(scope.metrics) == len(HISTOGRAMS) + len(GAUGES)


@pytest.mark.parametrize("packed", [True, False])
def test_another_report_differs_only_where_it_should(packed: bool) -> None:
    template = templates(1, 1, packed=packed)[0]

    assert template.body(REPORT) == template.body(REPORT)
    assert len(template.body(REPORT)) == len(template.body(Report(1, 1, bytes(16), 1, 1)))
    assert template.body(REPORT) != template.body(Report(1, 1, bytes(16), 1, 1))


def test_buckets_of_raw_values_are_those_of_the_contract() -> None:
    random = np.random.default_rng(5)
    values = np.exp(random.normal(-2, 2, 500))
    owner = random.integers(0, 3, 500)

    counts = report_shape.counts_of_values(values, owner, 3)

    expected = np.zeros((3, AXIS_LENGTH), np.int64)
    for value, whose in zip(values.tolist(), owner.tolist(), strict=True):
        expected[whose, axis_position(value)] += 1
    assert (counts == expected).all()


def test_classic_buckets_are_cumulative_and_whole() -> None:
    values = np.array([0.004, 0.005, 0.2, 11.0])

    (cumulative,) = classic_buckets.of_values(values, np.zeros(4, np.int64), 1)

    assert cumulative.tolist() == [sum(value <= bound for value in values) for bound in classic_buckets.BOUNDS]


def test_a_drawn_report_falls_into_classic_buckets_without_loss() -> None:
    drawn = report_shape.Shape().draw(np.random.default_rng(2), 4)

    cumulative = classic_buckets.of_axis(drawn.low, drawn.counts)

    assert (cumulative[..., -1] == drawn.counts.sum(axis=-1)).all()
    assert (np.diff(cumulative, axis=-1) >= 0).all()


def test_names_have_the_length_that_the_patch_needs() -> None:
    assert len(report_bodies.node_name(99_999)) == len(report_bodies.NODE_NAME)
    assert {len(report_bodies.pool_name(number)) for number in range(20)} == {len(report_bodies.POOL_NAME)}
