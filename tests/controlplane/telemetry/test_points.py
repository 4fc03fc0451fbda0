"""Single points: what is refused and why, and what becomes of buckets that are not the axis's own."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, RELATIVE_ERROR
from controlplane.telemetry import buckets
from controlplane.telemetry.labels import hash64
from controlplane.telemetry.point import Point
from controlplane.telemetry.points import Bounds, read_points
from controlplane.telemetry.refusal import Reason, Refusals
from controlplane.telemetry.sketch import Sketch
from controlplane.telemetry.timespan import to_ns

NOW = datetime(2026, 3, 1, 12, 10, tzinfo=UTC)
BOUNDS = Bounds(to_ns(NOW - timedelta(hours=48)), to_ns(NOW + timedelta(hours=1)))


def read(report: Any) -> tuple[list[Point], Refusals]:
    refusals = Refusals()
    return read_points(report.request, BOUNDS, refusals)[0], refusals


def metric_of(report: Any) -> otlp.Metric:
    metric: otlp.Metric = report.metrics[0]
    return metric


def change(**fields: Any) -> Callable[[Any], None]:
    def apply(report: Any) -> None:
        point = metric_of(report).exponential_histogram.data_points[0]
        for name, value in fields.items():
            setattr(point, name, value)

    return apply


def negative_bucket(report: Any) -> None:
    metric_of(report).exponential_histogram.data_points[0].negative.bucket_counts.append(1)


def cumulative(report: Any) -> None:
    metric_of(report).exponential_histogram.aggregation_temporality = otlp.AGGREGATION_TEMPORALITY_CUMULATIVE


def milliseconds(report: Any) -> None:
    metric_of(report).unit = "ms"


def label(value: str) -> Callable[[Any], None]:
    def apply(report: Any) -> None:
        attributes = metric_of(report).exponential_histogram.data_points[0].attributes
        attributes.add(key="trimtab.tenant").value.string_value = value

    return apply


@pytest.mark.parametrize(
    ("spoil", "reason", "said"),
    [
        (change(sum=math.nan), Reason.VALUE, "sum is nan"),
        (change(sum=-1.0), Reason.VALUE, "sum is -1.0"),
        (change(min=math.nan), Reason.VALUE, "min is nan"),
        (change(max=-math.inf), Reason.VALUE, "max is -inf"),
        (change(min=9.0, max=10.0), Reason.COUNTS, "min is 9.0"),
        (change(min=0.001, max=0.002), Reason.COUNTS, "max is 0.002"),
        (change(count=3), Reason.COUNTS, "count is 3"),
        (change(scale=21), Reason.COUNTS, "scale is 21"),
        (change(time_unix_nano=0), Reason.TIMESTAMP, "time_unix_nano is missing"),
        (change(time_unix_nano=to_ns(NOW + timedelta(hours=2))), Reason.TIMESTAMP, "in the future"),
        (change(time_unix_nano=2**64 - 1), Reason.TIMESTAMP, "in the future"),
        (change(time_unix_nano=to_ns(NOW - timedelta(days=3))), Reason.TIMESTAMP, "older"),
        (change(start_time_unix_nano=2**64 - 1), Reason.TIMESTAMP, "start_time_unix_nano is after"),
        (negative_bucket, Reason.VALUE, "negative.bucket_counts"),
        (cumulative, Reason.TEMPORALITY, "DELTA"),
        (milliseconds, Reason.METRIC, "unit must be 's'"),
        (label("x" * 257), Reason.LABEL, "trimtab.tenant"),
        (label("x\0"), Reason.LABEL, "zero byte"),
    ],
)
def test_a_bad_point_is_refused_by_name(
    make_report: Any, spoil: Callable[[Any], None], reason: Reason, said: str
) -> None:
    report = make_report()
    report.histogram([0.1, 0.2])
    spoil(report)
    points, refusals = read(report)
    assert points == [] and refusals.by_reason == {reason: 1}
    assert said in refusals.text() and metrics.TTFT.name in refusals.text()


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_bad_numbers(make_report: Any, value: float) -> None:
    report = make_report()
    report.number(metrics.REQUESTS.name, value)
    report.number(metrics.OUTPUT_TOKENS.name, 1)
    points, refusals = read(report)
    assert [point.metric for point in points] == [metrics.OUTPUT_TOKENS.name]
    assert refusals.by_reason == {Reason.VALUE: 1} and "as_double" in refusals.text()


def test_kinds_must_be_the_metrics_own(make_report: Any) -> None:
    report = make_report()
    report.number(metrics.TTFT.name, 1.0, kind="gauge")
    report.number("gen_ai.server.time_to_frist_token", 1.0)
    report.number("ttft", 1.0)
    points, refusals = read(report)
    assert [point.metric for point in points] == ["gen_ai.server.time_to_frist_token"]
    assert "is a histogram, not a gauge" in refusals.text() and "'ttft' is not kept" in refusals.text()


def test_an_up_down_counter_is_a_gauge(make_report: Any) -> None:
    report = make_report()
    report.number(metrics.RUNNING.name, 3, kind="sum")
    data = metric_of(report).sum
    data.is_monotonic, data.aggregation_temporality = False, otlp.AGGREGATION_TEMPORALITY_CUMULATIVE
    points, refusals = read(report)
    assert points[0].kind is metrics.MetricKind.GAUGE and not refusals.count


def test_points_that_say_nothing_are_no_error(make_report: Any) -> None:
    report = make_report()
    empty = report.histogram([0.1])
    empty.count = 0
    empty.positive.Clear()
    report.histogram([0.1], name=metrics.E2E.name).flags = otlp.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
    refusals = Refusals()
    assert read_points(report.request, BOUNDS, refusals) == ([], 2) and not refusals.count


def test_labels_and_identity(make_report: Any) -> None:
    report = make_report(node="a", pool="p")
    report.histogram([0.1], model="m", revision="4")
    points, _ = read(report)
    assert points[0].labels == '{"model":"m","node":"a","pool":"p","revision":"4"}'
    assert points[0].window * 5 == report.start_ns // 10**9
    report.request.resource_metrics[0].resource.attributes.reverse()
    assert read(report)[0] == points
    assert -(2**63) <= hash64(b"x") < 2**63 and hash64(b"x") != hash64(b"y")


def whole_axis(axis: buckets.Axis) -> np.ndarray:
    dense = np.zeros(AXIS_LENGTH, np.int64)
    dense[axis.low : axis.low + len(axis.counts)] = axis.counts
    return dense


@given(
    st.integers(5, 20), st.integers(-40_000, 40_000), st.lists(st.integers(0, 2**40), max_size=200), st.integers(0, 9)
)
def test_finer_buckets_merge_exactly(scale: int, offset: int, counts: list[int], zero: int) -> None:
    axis = buckets.from_exponential(scale, offset, counts, zero)
    expected, below = [0] * AXIS_LENGTH, zero
    for i, count in enumerate(counts):
        position = ((offset + i) >> (scale - 5)) - AXIS_MIN
        if position < 0:
            below += count
        else:
            expected[min(position, AXIS_LENGTH - 1)] += count
    assert whole_axis(axis).tolist() == expected and axis.zero == below
    assert axis.error == RELATIVE_ERROR


@given(st.integers(-10, 4), st.integers(-200, 200), st.lists(st.integers(0, 2**40), max_size=20), st.integers(0, 9))
def test_coarser_buckets_keep_their_number(scale: int, offset: int, counts: list[int], zero: int) -> None:
    axis = buckets.from_spans(buckets.exponential_spans(scale, offset, counts), zero)
    assert sum(axis.counts) + axis.zero == sum(counts) + zero
    assert min(axis.counts, default=0) >= 0


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_coarser_histograms_are_kept_and_say_so(make_report: Any, scale: int) -> None:
    rng = np.random.default_rng(3)
    values = rng.lognormal(-1, 1, 5000)
    report = make_report()
    report.histogram(values.tolist(), scale=scale)
    (point,), refusals = read(report)
    low, counts, zero, total, minimum, maximum, error = point.values
    assert refusals.count == 0 and f"scale {scale} is coarser" in refusals.text()
    assert error <= 2**2.0**-scale - 1 + 1e-9 and error > RELATIVE_ERROR
    sketch = Sketch(whole_axis(buckets.Axis(low, counts, zero)), zero, total, minimum, maximum)
    assert sketch.count == 5000
    for q in (0.5, 0.95, 0.99):
        assert sketch.quantile(q) == pytest.approx(float(np.quantile(values, q)), rel=error)


def explicit(report: Any, bounds: list[float], values: np.ndarray, *, extremes: bool = True) -> Any:
    metric = report.metrics.add(name=metrics.TTFT.name, unit="s")
    metric.histogram.aggregation_temporality = otlp.AGGREGATION_TEMPORALITY_DELTA
    point = metric.histogram.data_points.add(
        start_time_unix_nano=report.start_ns, time_unix_nano=report.end_ns, count=len(values), sum=values.sum()
    )
    point.explicit_bounds.extend(bounds)
    edges = [-math.inf, *bounds, math.inf]
    point.bucket_counts.extend(int(((values > low) & (values <= high)).sum()) for low, high in pairwise(edges))
    if extremes:
        point.min, point.max = values.min(), values.max()
    return point


def test_explicit_buckets_are_spread(make_report: Any) -> None:
    values = np.random.default_rng(3).lognormal(-1, 0.7, 5000)
    report = make_report()
    explicit(report, [0.0, *np.geomspace(0.05, 3.0, 15).tolist()], values)
    (point,), refusals = read(report)
    low, counts, zero, total, minimum, maximum, _ = point.values
    assert refusals.count == 0 and "explicit_bounds is coarser" in refusals.text()
    sketch = Sketch(whole_axis(buckets.Axis(low, counts, zero)), zero, total, minimum, maximum)
    assert sketch.count == 5000
    for q in (0.5, 0.9, 0.99):
        assert sketch.quantile(q) == pytest.approx(float(np.quantile(values, q)), rel=0.1)


@pytest.mark.parametrize(
    ("bounds", "fields", "said"),
    [
        ([1.0, 1.0], {}, "ascending"),
        ([1.0, math.nan], {}, "finite"),
        ([-2.0, -1.0, 1.0], {}, None),
        ([1.0], {"count": 4}, "count is 4"),
        ([0.1, 0.2], {"max": 0.05}, "max is 0.05"),
    ],
)
def test_explicit_buckets_must_make_sense(
    make_report: Any, bounds: list[float], fields: dict[str, Any], said: str | None
) -> None:
    report = make_report()
    point = explicit(report, bounds, np.array([0.5, 0.6, 0.7]))
    for name, value in fields.items():
        setattr(point, name, value)
    points, refusals = read(report)
    if said is None:
        assert len(points) == 1
    else:
        assert not points and said in refusals.text()


def test_explicit_values_below_zero_and_missing_extremes(make_report: Any) -> None:
    report = make_report()
    explicit(report, [-1.0, 1.0], np.array([-3.0, 0.5]), extremes=False)
    assert "below zero" in read(report)[1].text()
    report = make_report()
    explicit(report, [1.0, 2.0], np.array([0.5, 1.5, 7.0]), extremes=False)
    (point,), _ = read(report)
    minimum, maximum = point.values[4:6]
    assert minimum == 0.1 and maximum == 2.0  # The edges of what is known.
    assert sum(point.values[1]) == 3
