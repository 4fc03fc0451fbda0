"""Rows to blocks: each row once, whatever its window, metric, labels and buckets."""

from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.frames.block import HistogramBlock, ScalarBlock
from controlplane.telemetry.frames.frame_store import FrameKey
from controlplane.telemetry.frames.gather import FLEET, Ragged, fleet_blocks, node_blocks
from controlplane.telemetry.values.columns import Columns, HistogramRows, Ids, NumberRows

FAR = 2**40
"""Windows so far apart that a packed sorting key would not hold them beside the rest."""
ROW = st.tuples(
    st.sampled_from([0, 1, 7, FAR]),
    st.integers(1, 3),
    st.integers(0, 300),
    st.integers(0, AXIS_LENGTH - 40),
    st.lists(st.integers(0, 255), max_size=40),
)


def rows_of(rows: list[tuple[int, int, int, int, list[int]]]) -> HistogramRows:
    n = len(rows)
    window, metric, labels, low, counts = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    ids = [np.array(column, np.int32) for column in (metric, labels, low, [len(one) for one in counts])]
    cells = np.array([count for one in counts for count in one], np.uint8)
    return HistogramRows(
        np.array(window, np.int64), *ids, cells, np.arange(n), np.ones(n), np.full(n, 0.5), np.ones(n),
        np.full(n, RELATIVE_ERROR),
    )  # fmt: skip


def blocks_of(labels: Ids) -> Ids:
    return labels // 100


@settings(max_examples=80)
@given(st.lists(ROW, max_size=12))
def test_every_histogram_is_in_its_block_once(rows: list[tuple[int, int, int, int, list[int]]]) -> None:
    expected: dict[tuple[FrameKey, int], list[int]] = defaultdict(lambda: [0] * AXIS_LENGTH)
    for window, metric, labels, low, counts in rows:
        row = expected[FrameKey(5, metric, labels // 100, window), labels]
        for i, count in enumerate(counts):
            row[low + i] += count
    found: dict[tuple[FrameKey, int], list[int]] = {}
    columns = Columns(rows_of(rows), NumberRows.empty(), NumberRows.empty())
    for key, block in node_blocks(columns, blocks_of):
        assert isinstance(block, HistogramBlock)
        assert (np.diff(block.labels) > 0).all()
        for label, counts_there in zip(block.labels.tolist(), block.counts.tolist(), strict=True):
            assert (key, label) not in found
            before = [0] * block.low
            found[key, label] = (before + counts_there + [0] * AXIS_LENGTH)[:AXIS_LENGTH]
    assert found == dict(expected)


@given(st.lists(ROW, min_size=1, max_size=8), st.data())
def test_any_rows_can_be_had_dense(rows: list[tuple[int, int, int, int, list[int]]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=8))
    low, counts = Ragged(rows_of(rows)).dense(np.array(chosen))
    for place, row in zip(chosen, counts.tolist(), strict=True):
        _, _, _, first, cells = rows[place]
        expected = [0] * (2 * AXIS_LENGTH)
        expected[first : first + len(cells)] = cells
        assert row == expected[low : low + len(row)]
        assert sum(row) == sum(cells)


def test_sums_and_gauges_have_their_own_blocks_and_the_fleet_no_gauges() -> None:
    ids = np.array([5, 5], np.int32)
    numbers = NumberRows(np.array([3, 3]), np.array([1, 1], np.int32), ids, np.array([2.0, 4.0]), np.array([20, 10]))
    gauges = NumberRows(np.array([3, 3]), np.array([2, 2], np.int32), ids, np.array([2.0, 4.0]), np.array([20, 10]))
    columns = Columns(HistogramRows.empty(), numbers, gauges)
    nodes = dict(node_blocks(columns, blocks_of))
    assert set(nodes) == {FrameKey(5, 1, 0, 3), FrameKey(5, 2, 0, 3)}
    summed, latest = nodes[FrameKey(5, 1, 0, 3)], nodes[FrameKey(5, 2, 0, 3)]
    assert isinstance(summed, ScalarBlock) and isinstance(latest, ScalarBlock)
    assert (summed.kind, summed.value.tolist()) == (MetricKind.SUM, [6.0])
    assert (latest.kind, latest.value.tolist(), latest.time_ns.tolist()) == (MetricKind.GAUGE, [2.0], [20])
    assert [key for key, _ in fleet_blocks(columns)] == [FrameKey(5, 1, FLEET, 3)]
