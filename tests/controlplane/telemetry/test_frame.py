"""Frames: exact round trips, exact merges."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.contract.metrics import MetricKind
from controlplane.telemetry import frame, pending
from controlplane.telemetry.frame import HistogramBlock, ScalarBlock
from controlplane.telemetry.point import Point

COUNTS = st.integers(0, 2**40)
NUMBERS = st.floats(allow_nan=False, width=64)


@st.composite
def histogram_blocks(draw: st.DrawFn) -> HistogramBlock:
    series = np.array(sorted(draw(st.sets(st.integers(0, 300), max_size=8))), np.int32)
    n = len(series)
    width = draw(st.integers(0, 12))
    low = draw(st.integers(0, AXIS_LENGTH - width))
    largest = draw(st.sampled_from([1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**40]))
    counts = draw(st.lists(st.integers(0, largest), min_size=n * width, max_size=n * width))

    def column(strategy: st.SearchStrategy[float]) -> np.ndarray:
        return np.array(draw(st.lists(strategy, min_size=n, max_size=n)), float)

    return HistogramBlock(
        series, low, np.array(counts, np.uint64).reshape(n, width),
        np.array(draw(st.lists(COUNTS, min_size=n, max_size=n)), np.int64),
        *(column(st.floats(0, 1e6)) for _ in range(4)),
    )  # fmt: skip


@st.composite
def scalar_blocks(draw: st.DrawFn) -> ScalarBlock:
    series = np.array(sorted(draw(st.sets(st.integers(0, 300), max_size=8))), np.int32)
    n = len(series)
    values = draw(st.lists(st.integers(-(2**40), 2**40), min_size=n, max_size=n))
    times = draw(st.lists(st.integers(0, 2**62), min_size=n, max_size=n))
    return ScalarBlock(series, np.array(values, float), np.array(times, np.int64))


def dense(blocks: list[HistogramBlock]) -> dict[int, list[int]]:
    """Counts on the whole axis by series, the slow way."""
    found: dict[int, list[int]] = {}
    for block in blocks:
        for number, row in zip(block.series.tolist(), block.counts.tolist(), strict=True):
            whole = found.setdefault(number, [0] * AXIS_LENGTH)
            for i, count in enumerate(row):
                whole[block.low + i] += count
    return found


@given(histogram_blocks())
def test_histograms_round_trip(block: HistogramBlock) -> None:
    again = frame.decode_histograms(frame.encode_histograms(block))
    assert again.low == block.low
    for name in ("series", "counts", "zero", "total", "minimum", "maximum", "error"):
        np.testing.assert_array_equal(getattr(again, name), getattr(block, name))


@given(scalar_blocks())
def test_scalars_round_trip(block: ScalarBlock) -> None:
    again = frame.decode_scalars(frame.encode_scalars(block))
    for name in ("series", "value", "time_ns"):
        np.testing.assert_array_equal(getattr(again, name), getattr(block, name))


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_doubles_keep_every_bit(values: list[float]) -> None:
    block = ScalarBlock(np.arange(len(values), dtype=np.int32), np.array(values), np.zeros(len(values), np.int64))
    assert frame.decode_scalars(frame.encode_scalars(block)).value.tobytes() == block.value.tobytes()


@settings(max_examples=50)
@given(st.lists(histogram_blocks(), min_size=1, max_size=4))
def test_merging_adds_exactly_in_any_order(blocks: list[HistogramBlock]) -> None:
    merged = frame.merge_histograms(blocks)
    assert dense([merged]) == dense(blocks)
    assert merged.zero.sum() == sum(int(block.zero.sum()) for block in blocks)
    # Narrow frames merge as well as wide ones: what is stored as bytes must not overflow as bytes.
    stored = [frame.decode_histograms(frame.encode_histograms(block)) for block in reversed(blocks)]
    again = frame.merge_histograms(stored)
    assert dense([again]) == dense([merged])
    np.testing.assert_array_equal(again.minimum, merged.minimum)
    np.testing.assert_array_equal(again.maximum, merged.maximum)


@given(st.lists(scalar_blocks(), min_size=1, max_size=4))
def test_sums_add_and_gauges_take_the_latest(blocks: list[ScalarBlock]) -> None:
    sums: dict[int, float] = {}
    last: dict[int, tuple[int, float]] = {}
    for block in blocks:
        for number, value, time in zip(
            *(column.tolist() for column in (block.series, block.value, block.time_ns)), strict=True
        ):
            sums[number] = sums.get(number, 0.0) + value
            if number not in last or time >= last[number][0]:
                last[number] = (time, value)
    merged = frame.merge_sums(blocks)
    assert dict(zip(merged.series.tolist(), merged.value.tolist(), strict=True)) == sums
    gauges = frame.merge_gauges(blocks)
    assert dict(zip(gauges.series.tolist(), gauges.value.tolist(), strict=True)) == {k: v for k, (_, v) in last.items()}


HISTOGRAM_VALUES = st.tuples(
    st.integers(0, AXIS_LENGTH - 6), st.lists(COUNTS, max_size=6), COUNTS, *[st.floats(0, 1e6)] * 4
).map(list)


@given(st.lists(st.tuples(st.integers(1, 5), HISTOGRAM_VALUES), min_size=1, max_size=6))
def test_pending_rows_keep_everything(rows: list[tuple[int, list[object]]]) -> None:
    points = [
        (series, Point(MetricKind.HISTOGRAM, "m", "{}", 0, 0, 0, 0, 0, values))  # type: ignore[arg-type]
        for series, values in rows
    ]
    block = pending.decode(pending.encode(points))["m", MetricKind.HISTOGRAM]
    assert isinstance(block, HistogramBlock)
    expected: dict[int, list[int]] = {}
    for series, values in rows:
        low, counts = values[0], values[1]
        assert isinstance(low, int) and isinstance(counts, list)
        whole = expected.setdefault(series, [0] * AXIS_LENGTH)
        for i, count in enumerate(counts):
            whole[low + i] += count
    assert dense([block]) == expected
