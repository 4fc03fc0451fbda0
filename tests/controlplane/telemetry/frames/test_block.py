"""Blocks add up exactly, in any order."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.frames import frame
from controlplane.telemetry.frames.block import (
    HistogramBlock,
    ScalarBlock,
    collapse_histograms,
    collapse_scalars,
    merge,
    merge_histograms,
)
from tests.controlplane.telemetry.blocks_strategies import histogram_blocks, plain, scalar_blocks


def totals(blocks: list[HistogramBlock]) -> dict[int, float]:
    found: dict[int, float] = {}
    for block in blocks:
        for label, total in zip(block.labels.tolist(), block.total.tolist(), strict=True):
            found[label] = found.get(label, 0.0) + total
    return found


@settings(max_examples=60)
@given(st.lists(histogram_blocks(), min_size=1, max_size=4))
def test_merging_adds_exactly_in_any_order(blocks: list[HistogramBlock]) -> None:
    merged = merge_histograms(blocks)
    assert (np.diff(merged.labels) > 0).all()
    assert plain([merged]) == plain(blocks) == plain([merge_histograms(blocks[::-1])])
    expected = totals(blocks)
    assert merged.labels.tolist() == sorted(expected)
    np.testing.assert_allclose(merged.total, [expected[label] for label in sorted(expected)], rtol=1e-9, atol=1e-6)


@settings(max_examples=60)
@given(st.lists(histogram_blocks(), min_size=1, max_size=4))
def test_narrow_blocks_merge_as_well_as_wide_ones(blocks: list[HistogramBlock]) -> None:
    # What is stored in a byte must not overflow as a byte.
    stored: list[Any] = [frame.decode(frame.encode(block)) for block in blocks]
    counts = {label: row[:2] for label, row in plain([merge_histograms(stored)]).items()}
    assert counts == {label: row[:2] for label, row in plain(blocks).items()}


@settings(max_examples=60)
@given(st.lists(histogram_blocks(fewest=1), min_size=1, max_size=3))
def test_collapsing_rows_is_merging_them(blocks: list[HistogramBlock]) -> None:
    low = min(block.low for block in blocks)
    high = max(block.low + block.counts.shape[1] for block in blocks)
    counts = np.zeros((sum(map(len, blocks)), high - low), np.uint64)
    start = 0
    for block in blocks:
        counts[start : start + len(block), block.low - low : block.low - low + block.counts.shape[1]] = block.counts
        start += len(block)
    joined = {name: np.concatenate([getattr(block, name) for block in blocks])
              for name in ("labels", "zero", "total", "minimum", "maximum", "error")}  # fmt: skip
    order = np.argsort(joined["labels"], kind="stable")
    ordered = {name: column[order] for name, column in joined.items()}
    found = collapse_histograms(HistogramBlock(low=low, counts=counts[order], **ordered))
    assert plain([found]) == plain(blocks)


@given(st.lists(scalar_blocks(MetricKind.SUM), min_size=1, max_size=4))
def test_sums_add(blocks: list[ScalarBlock]) -> None:
    expected: dict[int, float] = {}
    for block in blocks:
        for label, value in zip(block.labels.tolist(), block.value.tolist(), strict=True):
            expected[label] = expected.get(label, 0.0) + value
    found = merge(blocks)
    assert isinstance(found, ScalarBlock)
    assert dict(zip(found.labels.tolist(), found.value.tolist(), strict=True)) == expected


@given(st.lists(scalar_blocks(MetricKind.GAUGE), min_size=1, max_size=4))
def test_gauges_take_the_latest_and_of_two_the_later_one(blocks: list[ScalarBlock]) -> None:
    last: dict[int, tuple[int, float]] = {}
    for block in blocks:
        rows = zip(block.labels.tolist(), block.time_ns.tolist(), block.value.tolist(), strict=True)
        for label, time, value in rows:
            if label not in last or time >= last[label][0]:
                last[label] = (time, value)
    found = merge(blocks)
    assert isinstance(found, ScalarBlock)
    kept = zip(found.labels.tolist(), zip(found.time_ns.tolist(), found.value.tolist(), strict=True), strict=True)
    assert dict(kept) == last


def test_of_a_gauges_repeated_rows_the_latest_stays() -> None:
    rows = ScalarBlock(
        np.array([1, 1, 2], np.int32), np.array([5.0, 6.0, 7.0]), np.array([20, 10, 5]), MetricKind.GAUGE
    )
    found = collapse_scalars(rows)
    assert (found.labels.tolist(), found.value.tolist()) == ([1, 2], [5.0, 7.0])
