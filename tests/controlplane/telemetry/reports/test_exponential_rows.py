"""Points read all at once are what they are one by one; varints are what protobuf says they are."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import ExponentialHistogramDataPoint

from controlplane.contract import metrics
from controlplane.telemetry.otlp.bounds import Bounds, check_times
from controlplane.telemetry.otlp.histogram_point import AxisPoint, on_axis, read_exponential
from controlplane.telemetry.reports.exponential_rows import decode_varints, rows_of
from controlplane.telemetry.reports.points import Extraction
from controlplane.telemetry.values.refusal import Refusals, Refused
from controlplane.telemetry.values.timespan import to_ns

NOW = datetime(2026, 3, 1, 12, 10, tzinfo=UTC)
BOUNDS = Bounds(to_ns(NOW - timedelta(hours=48)), to_ns(NOW + timedelta(hours=1)))
IN_TIME = to_ns(NOW)

REALS = st.sampled_from([0.0, 1e-9, 0.01, 0.1, 0.2, 1.0, 700.0, 1e300, math.inf, math.nan, -1.0])
TIMES = st.sampled_from([0, 1, IN_TIME - 5 * 10**9, IN_TIME, BOUNDS.oldest_ns - 1, BOUNDS.newest_ns + 1, 2**64 - 1])
COUNTS = st.lists(st.sampled_from([0, 0, 1, 3, 127, 128, 300, 2**32]), max_size=6)
OFFSETS = st.sampled_from([-110, -107, -640, -639, 314, 317, 318, 319])
NEAR = st.sampled_from([1.0, 1 - 1e-7, 1 + 1e-7, 1 - 1e-5, 1 + 1e-5])
"""What is stated of an extreme lies at an edge, a rounding error beside it, or more than that."""
FAULTS = [None] * 6 + [
    "start",
    "end",
    "scale",
    "count",
    "negative",
    "flags",
    "sum",
    "min",
    "max",
    "cells",
    "offset",
    "zero",
]


@st.composite
def points(draw: st.DrawFn) -> ExponentialHistogramDataPoint:
    """Mostly sound, or with one fault."""
    fault = draw(st.sampled_from(FAULTS))
    counts = draw(COUNTS)
    if fault == "cells":
        counts = [*counts, draw(st.sampled_from([2**40, 2**40 + 1, 2**63, 2**64 - 1]))]
    zero = draw(st.sampled_from([0, 0, 2])) if fault != "zero" else 2**41
    offset = draw(OFFSETS) if fault != "offset" else draw(st.sampled_from([-641, 320, -(2**31), 2**31 - 1]))
    total = min(sum(counts) + zero, 2**64 - 1)
    point = ExponentialHistogramDataPoint(
        start_time_unix_nano=IN_TIME - 5 * 10**9,
        time_unix_nano=IN_TIME if fault != "end" else draw(TIMES),
        scale=5 if fault != "scale" else draw(st.sampled_from([4, 6, 0, 21])),
        zero_count=zero,
        count=total if fault != "count" else max(total + draw(st.sampled_from([-1, 1])), 0),
        flags=0 if fault != "flags" else draw(st.sampled_from([1, 2])),
    )
    if fault == "start":
        point.start_time_unix_nano = draw(TIMES | st.just(IN_TIME + 1))
    point.positive.offset = offset
    point.positive.bucket_counts.extend(counts)
    if fault == "negative":
        point.negative.bucket_counts.extend(draw(st.sampled_from([[0], [1]])))
    occupied = [place for place, count in enumerate(counts) if count] or [0]
    lowest, highest = (
        2.0 ** ((min(offset, 400) + occupied[0]) / 32),
        2.0 ** ((min(offset, 400) + occupied[-1] + 1) / 32),
    )
    narrow = 2.0 ** (1 / 32)
    if draw(st.booleans()) or fault == "min":
        point.min = draw(REALS) if fault == "min" else draw(NEAR) * draw(st.sampled_from([lowest, lowest * narrow]))
    if draw(st.booleans()) or fault == "max":
        point.max = draw(REALS) if fault == "max" else draw(NEAR) * draw(st.sampled_from([highest, highest / narrow]))
    if draw(st.integers(0, 9)) or fault == "sum":
        point.sum = draw(REALS) if fault == "sum" else 1.0
    return point


def one_by_one(point: ExponentialHistogramDataPoint) -> AxisPoint | str:
    """The row, "silent", or what is said of it."""
    if point.flags & 1:
        return "silent"
    try:
        check_times("m", point.start_time_unix_nano, point.time_unix_nano, BOUNDS)
        raw = read_exponential("m", point)
        return on_axis("m", raw, Refusals()) if raw.count else "silent"
    except Refused as refused:
        return refused.message


@pytest.mark.slow
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(points(), min_size=1, max_size=8))
def test_together_as_one_by_one(make_report: Any, given_points: list[ExponentialHistogramDataPoint]) -> None:
    report = make_report()
    metric = report.metrics.add(name=metrics.TTFT.name, unit="s").exponential_histogram
    metric.aggregation_temporality = 1
    for place, point in enumerate(given_points):
        sent = metric.data_points.add()
        sent.CopyFrom(point)
        sent.attributes.add(key=metrics.MODEL.name).value.string_value = str(place)
    refusals = Refusals()
    found = Extraction().read(report.request.SerializeToString(), BOUNDS, refusals)
    expected = [one_by_one(point) for point in given_points]
    assert found.silent == expected.count("silent")
    assert refusals.count == sum(isinstance(one, str) and one != "silent" for one in expected)
    rows = found.columns.histograms
    starts = np.cumsum(rows.width) - rows.width
    got = {}
    for row in range(len(rows)):
        cells = rows.cells[starts[row] : starts[row] + rows.width[row]].tolist()
        model = found.table.labels[rows.labels[row]].partition('"model":"')[2][0]
        fields = (rows.zero[row], rows.total[row], rows.minimum[row], rows.maximum[row], rows.error[row])
        got[int(model)] = (int(rows.low[row]) if cells else 0, cells, *fields)
    assert got == {
        place: (one.low if len(one.counts) else 0, list(one.counts), *one[2:])
        for place, one in enumerate(expected)
        if isinstance(one, AxisPoint)
    }


def test_what_is_in_order_takes_the_short_way() -> None:
    counts = bytes([1, 2, 0, 3])
    sound = (0, 0, IN_TIME - 1, IN_TIME, 8, 2, 5, -100, 1.0, 0.0, 0.13, True, False, True, counts)
    changed = [(4, 7), (6, 4), (7, -641), (8, math.nan), (9, 0.5), (10, 0.01), (3, 0), (2, IN_TIME + 1)]
    spoilt = [(*sound[:place], value, *sound[place + 1 :]) for place, value in changed]
    spoilt[4] = (*spoilt[4][:12], True, *spoilt[4][13:])
    rows, kept = rows_of([sound, *spoilt, sound], BOUNDS)
    assert kept.tolist() == [True, *[False] * len(spoilt), True]
    assert rows.cells.tolist() == [1, 2, 0, 3] * 2 and rows.cells.dtype == np.uint8


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@given(st.lists(st.lists(st.integers(0, 2**63 - 1), max_size=5), min_size=1, max_size=5))
def test_varints(items: list[list[int]]) -> None:
    values, first, end = decode_varints(tuple(b"".join(map(varint, item)) for item in items))
    assert [values[a:b].tolist() for a, b in zip(first, end, strict=True)] == items


@pytest.mark.parametrize("damaged", [b"\x80", b"\x01\xff", varint(2**64 - 1), b"\xff" * 12 + b"\x01"])
def test_a_damaged_item_leaves_the_others(damaged: bytes) -> None:
    values, first, end = decode_varints((varint(300) + b"\x05", damaged, b"\x07"))
    assert [values[a:b].tolist() for a, b in zip(first, end, strict=True)] == [[300, 5], [], [7]]


def test_unpacked_counts_are_read_too(make_report: Any) -> None:
    """Legal in protobuf, though no known sender does it: each count a field of its own."""
    report = make_report()
    point = report.histogram([0.1, 0.1, 0.2])
    counts = list(point.positive.bucket_counts)
    packed = b"\x12" + varint(len(counts)) + b"".join(map(varint, counts))
    unpacked = b"".join(b"\x10" + varint(count) for count in counts)
    positive = point.positive.SerializeToString()
    assert packed in positive and len(unpacked) < 128
    other = positive.replace(packed, unpacked)
    raw = point.SerializeToString().replace(
        b"\x42" + varint(len(positive)) + positive, b"\x42" + varint(len(other)) + other
    )
    assert ExponentialHistogramDataPoint.FromString(raw) == point
    body = report.request.SerializeToString()
    # The lengths of all that encloses the point change as well: rebuild the request around the raw bytes.
    metric = b"\x0a" + varint(len(raw)) + raw + b"\x10\x01"
    name = metrics.TTFT.name.encode()
    named = b"\x0a" + varint(len(name)) + name + b"\x52" + varint(len(metric)) + metric
    scope = b"\x12" + varint(len(named)) + named
    resource = report.request.resource_metrics[0].resource.SerializeToString()
    whole = b"\x0a" + varint(len(resource)) + resource + b"\x12" + varint(len(scope)) + scope
    request = b"\x0a" + varint(len(whole)) + whole
    refusals = Refusals()
    found = Extraction().read(request, BOUNDS, refusals)
    assert refusals.text() == "" and found.columns.histograms.cells.tolist() == counts
    assert found.identities.key.tolist() == Extraction().read(body, BOUNDS, Refusals()).identities.key.tolist()
