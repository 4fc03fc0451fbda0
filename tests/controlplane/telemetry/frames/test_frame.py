"""Frames: exact round trips, and what is damaged is told."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.histogram import AXIS_MIN, RELATIVE_ERROR
from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.frames import frame
from controlplane.telemetry.frames.block import HistogramBlock, ScalarBlock
from controlplane.telemetry.values import extremes
from tests.controlplane.telemetry.blocks_strategies import histogram_blocks, scalar_blocks

DOUBLES = st.floats(allow_nan=False, width=64)


def same(there: HistogramBlock, expected: HistogramBlock) -> None:
    assert there.counts.shape == expected.counts.shape and (there.low == expected.low or not expected.counts.shape[1])
    for name in ("labels", "counts", "zero", "total", "error"):
        np.testing.assert_array_equal(getattr(there, name), getattr(expected, name))


@given(histogram_blocks())
def test_histograms_round_trip(block: HistogramBlock) -> None:
    again = frame.decode(frame.encode(block))
    assert isinstance(again, HistogramBlock)
    same(again, block)
    minimum, maximum = extremes.rounded(block.minimum, block.maximum)
    np.testing.assert_array_equal(again.minimum, minimum)
    np.testing.assert_array_equal(again.maximum, maximum)


@given(histogram_blocks())
def test_what_was_kept_once_stays_as_it_is(block: HistogramBlock) -> None:
    once = frame.encode(block)
    assert frame.encode(frame.decode(once)) == once


@given(scalar_blocks())
def test_scalars_round_trip(block: ScalarBlock) -> None:
    again = frame.decode(frame.encode(block))
    assert isinstance(again, ScalarBlock) and again.kind is block.kind
    for name in ("labels", "value", "time_ns"):
        np.testing.assert_array_equal(getattr(again, name), getattr(block, name))


@given(st.lists(DOUBLES, min_size=1, max_size=5))
def test_doubles_keep_every_bit(values: list[float]) -> None:
    n = len(values)
    block = ScalarBlock(np.arange(n, dtype=np.int32), np.array(values), np.zeros(n, np.int64), MetricKind.SUM)
    again = frame.decode(frame.encode(block))
    assert isinstance(again, ScalarBlock) and again.value.tobytes() == block.value.tobytes()


@settings(max_examples=60)
@given(st.one_of(histogram_blocks(), scalar_blocks()), st.data())
def test_a_changed_bit_or_a_lost_end_is_told(block: Any, data: st.DataObject) -> None:
    whole = frame.encode(block)
    at = data.draw(st.integers(0, len(whole) * 8 - 1))
    changed = bytearray(whole)
    changed[at // 8] ^= 1 << at % 8
    with pytest.raises(frame.Damaged):
        frame.decode(bytes(changed))
    with pytest.raises(frame.Damaged):
        frame.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_rows_are_told_without_decoding() -> None:
    block = ScalarBlock(np.array([3, 9], np.int32), np.ones(2), np.zeros(2, np.int64), MetricKind.SUM)
    assert frame.rows_of(frame.encode(block)) == 2


def test_a_histogram_of_a_report_takes_less_than_sixty_bytes() -> None:
    # 128 nodes of 6 label sets, 200 lognormal values each: what facts about stores were measured with.
    random = np.random.default_rng(7)
    n, values = 768, 200
    drawn = np.exp(random.normal(-1.5, 0.5, (n, values)))
    position = np.ceil(np.log2(drawn) * 32).astype(int) - 1 - AXIS_MIN
    low = int(position.min())
    counts = np.zeros((n, int(position.max()) - low + 1), np.uint8)
    np.add.at(counts, (np.repeat(np.arange(n), values), (position - low).ravel()), 1)
    block = HistogramBlock(
        np.arange(n, dtype=np.int32) * 7, low, counts, np.zeros(n, np.int64),
        drawn.sum(axis=1), drawn.min(axis=1), drawn.max(axis=1), np.full(n, RELATIVE_ERROR),
    )  # fmt: skip
    assert len(frame.encode(block)) / n < 60
