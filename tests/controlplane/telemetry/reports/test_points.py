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
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.otlp import buckets
from controlplane.telemetry.otlp.bounds import Bounds
from controlplane.telemetry.otlp.labels import hash64
from controlplane.telemetry.reports.points import Extracted, Extraction
from controlplane.telemetry.values.columns import HistogramRows
from controlplane.telemetry.values.refusal import Reason, Refusals
from controlplane.telemetry.values.timespan import to_ns

NOW = datetime(2026, 3, 1, 12, 10, tzinfo=UTC)
BOUNDS = Bounds(to_ns(NOW - timedelta(hours=48)), to_ns(NOW + timedelta(hours=1)))


def read(report: Any) -> tuple[Extracted, Refusals]:
    refusals = Refusals()
    return Extraction().read(report.request.SerializeToString(), BOUNDS, refusals), refusals


def only(rows: HistogramRows) -> tuple[buckets.Axis, float, float, float]:
    """The single histogram, and its sum, minimum and maximum."""
    assert len(rows) == 1
    axis = buckets.Axis(int(rows.low[0]), rows.cells.tolist(), int(rows.zero[0]), float(rows.error[0]))
    return axis, float(rows.total[0]), float(rows.minimum[0]), float(rows.maximum[0])


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


def no_temporality(report: Any) -> None:
    metric_of(report).exponential_histogram.aggregation_temporality = otlp.AGGREGATION_TEMPORALITY_UNSPECIFIED


def milliseconds(report: Any) -> None:
    metric_of(report).unit = "ms"


def label(value: str) -> Callable[[Any], None]:
    def apply(report: Any) -> None:
        attributes = metric_of(report).exponential_histogram.data_points[0].attributes
        attributes.add(key="tailwright.tenant").value.string_value = value

    return apply


@pytest.mark.parametrize(
    ("spoil", "reason", "said"),
    [
        (change(sum=math.nan), Reason.VALUE, "sum is nan"),
        (change(sum=1e101), Reason.VALUE, "sum is 1e+101"),
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
        (no_temporality, Reason.TEMPORALITY, "DELTA or CUMULATIVE"),
        (milliseconds, Reason.METRIC, "unit must be 's'"),
        (label("x" * 257), Reason.LABEL, "tailwright.tenant"),
        (label("x\0"), Reason.LABEL, "zero byte"),
    ],
)
def test_a_bad_point_is_refused_by_name(
    make_report: Any, spoil: Callable[[Any], None], reason: Reason, said: str
) -> None:
    report = make_report()
    report.histogram([0.1, 0.2])
    spoil(report)
    found, refusals = read(report)
    assert len(found.columns) == 0 and refusals.by_reason == {reason: 1}
    assert said in refusals.text() and metrics.TTFT.name in refusals.text()


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e101, -1.0])
def test_bad_numbers(make_report: Any, value: float) -> None:
    report = make_report()
    report.number(metrics.REQUESTS.name, value)
    report.number(metrics.OUTPUT_TOKENS.name, 1)
    found, refusals = read(report)
    assert [found.table.metrics[i][0] for i in found.columns.sums.metric] == [metrics.OUTPUT_TOKENS.name]
    assert refusals.by_reason == {Reason.VALUE: 1} and "as_double" in refusals.text()


def test_kinds_must_be_the_metrics_own(make_report: Any) -> None:
    report = make_report()
    report.number(metrics.TTFT.name, 1.0, kind="gauge")
    report.number("gen_ai.server.time_to_frist_token", 1.0)
    report.number("ttft", 1.0)
    found, refusals = read(report)
    assert [found.table.metrics[i][0] for i in found.columns.sums.metric] == ["gen_ai.server.time_to_frist_token"]
    assert len(found.columns) == 1
    assert "is a histogram, not a gauge" in refusals.text() and "'ttft' is not kept" in refusals.text()


def test_an_up_down_counter_is_a_gauge(make_report: Any) -> None:
    report = make_report()
    report.number(metrics.RUNNING.name, 3, kind="sum")
    data = metric_of(report).sum
    data.is_monotonic, data.aggregation_temporality = False, otlp.AGGREGATION_TEMPORALITY_CUMULATIVE
    found, refusals = read(report)
    assert found.columns.gauges.value.tolist() == [3] and len(found.columns) == 1 and not refusals.count
    assert found.table.metrics == ((metrics.RUNNING.name, metrics.MetricKind.GAUGE),) and not found.cumulative


def test_points_that_say_nothing_are_no_error(make_report: Any) -> None:
    report = make_report()
    empty = report.histogram([0.1])
    empty.count = 0
    empty.positive.Clear()
    report.histogram([0.1], name=metrics.E2E.name).flags = otlp.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
    found, refusals = read(report)
    assert found.silent == 2 and len(found.columns) == 0 and not refusals.count


def test_labels_and_identity(make_report: Any) -> None:
    report = make_report(node="a", pool="p")
    report.histogram([0.1], model="m", revision="4")
    found, _ = read(report)
    assert found.table.labels == ('{"model":"m","node":"a","pool":"p","revision":"4"}',)
    assert found.columns.histograms.window.tolist() == [report.start_ns // (5 * 10**9)]
    assert found.identities.start_ns.tolist() == [report.start_ns]
    assert found.identities.end_ns.tolist() == [report.end_ns]
    report.request.resource_metrics[0].resource.attributes.reverse()
    again, _ = read(report)
    assert again.identities.resource.tolist() == found.identities.resource.tolist()
    assert again.identities.key.tolist() == found.identities.key.tolist()
    assert -(2**63) <= hash64(b"x") < 2**63 and hash64(b"x") != hash64(b"y")


def test_every_row_has_its_own_identity(make_report: Any) -> None:
    """Points read together and points read one by one, sums and gauges: identities stand in the order of the rows."""
    report = make_report()
    for scale in (5, 8):
        report.histogram([0.1], scale=scale, model=str(scale))
    report.number(metrics.OUTPUT_TOKENS.name, 1)
    report.number(metrics.RUNNING.name, 2, kind="gauge")
    alone = []
    for i in range(len(report.metrics)):
        single = make_report()
        single.metrics.append(report.metrics[i])
        alone.append(int(read(single)[0].identities.key[0]))
    found, _ = read(report)
    assert found.identities.key.tolist() == alone and len(set(alone)) == 4
    assert [found.table.labels[i] for i in found.columns.histograms.labels] == [
        '{"model":"5","node":"n1","pool":"chat"}', '{"model":"8","node":"n1","pool":"chat"}',
    ]  # fmt: skip


def test_values_beyond_the_axis(make_report: Any) -> None:
    """Our agents put them into its last bucket, and state the true extremes."""
    report = make_report()
    point = report.histogram([1023.0])
    point.min = point.max = point.sum = 5000.0
    found, refusals = read(report)
    axis, _, minimum, maximum = only(found.columns.histograms)
    assert refusals.count == 0 and (axis.low, axis.counts) == (AXIS_LENGTH - 1, [1])
    assert (minimum, maximum) == (5000.0, 5000.0)
    point.ClearField("max")
    assert only(read(report)[0].columns.histograms)[2:] == (5000.0, 5000.0)
    point.positive.offset -= 1
    assert "min is 5000.0" in read(report)[1].text()


@pytest.mark.parametrize("value", [0, 3, -2.5])
def test_the_short_way_and_the_careful_one_agree(make_report: Any, value: float) -> None:
    """Flags that mean nothing to us make a point be read with all care: it must come out the same."""
    found = []
    for flags in (0, 2):
        report = make_report()
        report.histogram([0.1, 0.2], model="m").flags = flags
        for kind in ("sum", "gauge"):
            point = report.number(f"tailwright.{kind}", 1, kind=kind, model="m")
            point.flags = flags
            if isinstance(value, int):
                point.as_int = value
            else:
                point.as_double = value
        report.metrics[1].sum.is_monotonic = False
        # Numbers take the short way from the second time on, when their labels are known.
        extraction, body = Extraction(), report.request.SerializeToString()
        extraction.read(body, BOUNDS, Refusals())
        found.append(extraction.read(body, BOUNDS, Refusals()))
    short, careful = found
    assert short.table is not careful.table and short.table.metrics == careful.table.metrics
    assert short.table.labels == careful.table.labels
    for name in ("resource", "start_ns", "end_ns", "key"):
        assert getattr(short.identities, name).tolist() == getattr(careful.identities, name).tolist()
    for rows in ("histograms", "sums", "gauges"):
        for name, column in vars(getattr(short.columns, rows)).items():
            assert column.tolist() == getattr(getattr(careful.columns, rows), name).tolist(), (rows, name)
    assert short.columns.gauges.value.tolist() == [value] and len(short.columns) == 3


def test_a_number_without_a_value(make_report: Any) -> None:
    report = make_report()
    report.number("tailwright.a", 1, kind="gauge").ClearField("as_double")
    report.number("tailwright.b", 0, kind="gauge")
    extraction = Extraction()
    for _ in range(2):
        refusals = Refusals()
        found = extraction.read(report.request.SerializeToString(), BOUNDS, refusals)
        assert len(found.columns) == 1 and "tailwright.a: neither as_double nor as_int" in refusals.text()


def test_what_was_read_once_reads_the_same_again(make_report: Any) -> None:
    extraction, reports = Extraction(), []
    for _ in range(2):
        report = make_report()
        report.histogram([0.1, 0.2], model="m")
        report.number(metrics.OUTPUT_TOKENS.name, 1)
        reports.append(extraction.read(report.request.SerializeToString(), BOUNDS, Refusals()))
    assert reports[0].table is reports[1].table
    assert reports[0].identities.key.tolist() == reports[1].identities.key.tolist()


def test_text_that_is_no_utf8_spoils_its_point_only(make_report: Any) -> None:
    report = make_report()
    for model in ("good", "badtext"):
        report.histogram([0.1, 0.2], model=model)
    report.number("tailwright.badname", 1, kind="gauge")
    body = report.request.SerializeToString().replace(b"badtext", b"bad\xfftxt").replace(b"badname", b"bad\xffnam")
    refusals = Refusals()
    found = Extraction().read(body, BOUNDS, refusals)
    assert len(found.columns) == 1 and found.table.labels[0] == '{"model":"good","node":"n1","pool":"chat"}'
    assert refusals.by_reason == {Reason.LABEL: 1, Reason.METRIC: 1} and "UTF-8" in refusals.text()


def test_at_most_128_attributes(make_report: Any) -> None:
    report = make_report()
    for many in (128, 129):
        point = report.histogram([0.1])
        for i in range(many):
            point.attributes.add(key=f"a{i}").value.int_value = many
    found, refusals = read(report)
    assert len(found.columns) == 1 and refusals.by_reason == {Reason.LABEL: 1} and "129 attributes" in refusals.text()


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


def spread_one_by_one(spans: list[tuple[float, float, int]], zero: int) -> tuple[list[int], int, float]:
    """What `from_spans` does, span by span over the whole axis."""
    edges = (np.arange(AXIS_LENGTH + 1) + AXIS_MIN) / 32
    dense, error = np.zeros(AXIS_LENGTH, np.int64), RELATIVE_ERROR
    for lower, upper, count in spans:
        if upper <= 2.0**-20:
            zero += count
            continue
        low, high = math.log2(max(lower, 2.0**-20)), math.log2(upper)
        share = np.clip((edges - low) / (high - low), 0, 1) if high - low > 1e-12 else (high <= edges).astype(float)
        below = np.rint(share * count).astype(np.int64)
        below[0], below[-1] = 0, count
        dense += np.diff(below)
        error = max(error, upper / max(lower, 2.0**-20) - 1)
    return dense.tolist(), zero, error


EDGES = st.lists(
    st.floats(0, 1e6) | st.sampled_from([0.0, 2.0**-20, 2.0**-21, 0.25, 1.0, 1024.0, 2.0 ** (1 / 32)]),
    min_size=2, max_size=12, unique=True,
)  # fmt: skip


@given(EDGES, st.lists(st.integers(0, 2**40), min_size=11, max_size=11), st.integers(0, 3), st.booleans())
def test_spans_are_spread_as_one_by_one(edges: list[float], counts: list[int], zero: int, point_at_end: bool) -> None:
    edges = sorted(edges)
    spans = [(low, high, count) for (low, high), count in zip(pairwise(edges), counts, strict=False) if count]
    if point_at_end:
        spans.append((edges[-1], edges[-1], 5))
    axis = buckets.from_spans(spans, zero)
    dense, expected_zero, error = spread_one_by_one(spans, zero)
    found = whole_axis(axis).tolist()
    assert axis.zero == expected_zero and axis.error == pytest.approx(error)
    assert sum(found) == sum(dense)
    # A logarithm in the last place may move an edge's share across a half.
    assert max(abs(a - b) for a, b in zip(found, dense, strict=True)) <= 1 + max(counts) * 1e-9


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_coarser_histograms_are_kept_and_say_so(make_report: Any, scale: int) -> None:
    rng = np.random.default_rng(3)
    values = rng.lognormal(-1, 1, 5000)
    report = make_report()
    report.histogram(values.tolist(), scale=scale)
    found, refusals = read(report)
    axis, total, minimum, maximum = only(found.columns.histograms)
    error = axis.error
    assert refusals.count == 0 and f"scale {scale} is coarser" in refusals.text()
    assert error <= 2**2.0**-scale - 1 + 1e-9 and error > RELATIVE_ERROR
    sketch = Sketch(whole_axis(axis), axis.zero, total, minimum, maximum)
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
    found, refusals = read(report)
    axis, total, minimum, maximum = only(found.columns.histograms)
    assert refusals.count == 0 and "explicit_bounds is coarser" in refusals.text()
    sketch = Sketch(whole_axis(axis), axis.zero, total, minimum, maximum)
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
    found, refusals = read(report)
    if said is None:
        assert len(found.columns) == 1
    else:
        assert not len(found.columns) and said in refusals.text()


def test_explicit_values_below_zero_and_missing_extremes(make_report: Any) -> None:
    report = make_report()
    explicit(report, [-1.0, 1.0], np.array([-3.0, 0.5]), extremes=False).sum = 1.0
    assert "below zero" in read(report)[1].text()
    report = make_report()
    explicit(report, [1.0, 2.0], np.array([0.5, 1.5, 7.0]), extremes=False)
    axis, _, minimum, maximum = only(read(report)[0].columns.histograms)
    assert minimum == 0.1 and maximum == 2.0  # The edges of what is known.
    assert sum(axis.counts) == 3
