"""Hypothesis strategies of blocks, and the slow, plain way to add them up."""

import numpy as np
from hypothesis import strategies as st

from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.frames.block import HistogramBlock, ScalarBlock

MOST_LABELS = 12
EXTREMES = st.one_of(
    st.floats(1e-7, 2e3), st.just(0.0), st.just(np.inf), st.just(-np.inf), st.floats(-5.0, -1e-9), st.floats(0, 1e-300)
)
ERRORS = st.one_of(st.just(RELATIVE_ERROR), st.floats(0, 10))
Plain = dict[int, tuple[list[int], int, float, float, float]]
"""Labels id to counts on the whole axis, zero count, smallest, largest, error."""


@st.composite
def histogram_blocks(draw: st.DrawFn, fewest: int = 0, largest: int = 2**40) -> HistogramBlock:
    labels = np.array(sorted(draw(st.sets(st.integers(0, MOST_LABELS), min_size=fewest, max_size=8))), np.int32)
    n = len(labels)
    width = draw(st.integers(0, 12))
    low = draw(st.integers(0, AXIS_LENGTH - width))
    most = min(largest, draw(st.sampled_from([1, 15, 16, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**40])))
    counts = draw(st.lists(st.integers(0, most), min_size=n * width, max_size=n * width))

    def column(strategy: st.SearchStrategy[float]) -> np.ndarray:
        return np.array(draw(st.lists(strategy, min_size=n, max_size=n)), float)

    return HistogramBlock(
        labels, low, np.array(counts, np.uint64).reshape(n, width),
        np.array(draw(st.lists(st.one_of(st.just(0), st.integers(0, 2**40)), min_size=n, max_size=n)), np.int64),
        column(st.floats(-1e6, 1e6)), column(EXTREMES), column(EXTREMES), column(ERRORS),
    )  # fmt: skip


@st.composite
def scalar_blocks(draw: st.DrawFn, kind: MetricKind | None = None) -> ScalarBlock:
    chosen = kind or draw(st.sampled_from([MetricKind.SUM, MetricKind.GAUGE]))
    labels = np.array(sorted(draw(st.sets(st.integers(0, MOST_LABELS), max_size=8))), np.int32)
    n = len(labels)
    values = draw(st.lists(st.integers(-(2**40), 2**40), min_size=n, max_size=n))
    times = [0] * n if chosen is MetricKind.SUM else draw(st.lists(st.integers(0, 2**62), min_size=n, max_size=n))
    return ScalarBlock(labels, np.array(values, float), np.array(times, np.int64), chosen)


def plain(blocks: list[HistogramBlock]) -> Plain:
    """The sum of blocks, without numpy."""
    found: Plain = {}
    for block in blocks:
        for i, label in enumerate(block.labels.tolist()):
            counts, zero, least, most, error = found.get(label, ([0] * AXIS_LENGTH, 0, np.inf, -np.inf, 0.0))
            counts = list(counts)
            for j, count in enumerate(block.counts[i].tolist()):
                counts[block.low + j] += count
            found[label] = (
                counts,
                zero + int(block.zero[i]),
                min(least, float(block.minimum[i])),
                max(most, float(block.maximum[i])),
                max(error, float(block.error[i])),
            )
    return found
