"""Sums of histograms are exact, in whatever portions and order they come."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.telemetry.frames.block import HistogramBlock
from controlplane.telemetry.queries import histogram_sums
from controlplane.telemetry.queries.grouping import Groupings
from controlplane.telemetry.queries.histogram_sums import FEW_ROWS, HistogramSums, SketchGroups
from controlplane.telemetry.values.timespan import EPOCH

LABELS = {number: {"node": f"n{number % 4}", "pool": "a" if number % 2 else "b"} for number in range(1, 9)}


def block_of(labels: list[int], low: int, counts: Any) -> HistogramBlock:
    n = len(labels)
    return HistogramBlock(
        np.array(labels, np.int32),
        low,
        np.array(counts),
        np.arange(n),
        np.arange(n, dtype=float),
        np.full(n, 0.5),
        np.full(n, 2.0),
        np.full(n, RELATIVE_ERROR / 2),
    )


@st.composite
def blocks(draw: st.DrawFn) -> tuple[int, HistogramBlock]:
    """A block of a window, of few label sets so that some blocks have the same."""
    labels = draw(st.sampled_from([[1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8], [2, 5]]))
    width, dtype = draw(st.integers(0, 4)), draw(st.sampled_from([np.uint8, np.uint16, np.uint32]))
    most = int(np.iinfo(dtype).max)
    values = draw(st.lists(st.integers(0, most), min_size=width * len(labels), max_size=width * len(labels)))
    counts = np.array(values, dtype).reshape(len(labels), width)
    return draw(st.integers(0, 5)) * 5, block_of(labels, draw(st.integers(0, AXIS_LENGTH - 4)), counts)


def sums_of(given: list[tuple[int, HistogramBlock]], step_s: float | None, *, as_rows: bool = False) -> SketchGroups:
    sums = HistogramSums(
        Groupings().get(["node"], {"pool": "a"}), lambda ids: {one: LABELS[one] for one in ids}, step_s
    )
    for second, block in given:
        sums.add(np.full(len(block), second) if as_rows else second, block)
    return sums.groups()


def counted(given: list[tuple[int, HistogramBlock]], step_s: int) -> dict[tuple[str, int], list[int]]:
    """By node and step, one row after the other."""
    found: dict[tuple[str, int], Any] = {}
    for second, block in given:
        for row, number in enumerate(block.labels.tolist()):
            if LABELS[number]["pool"] == "a":
                whole = found.setdefault((LABELS[number]["node"], second // step_s), np.zeros(AXIS_LENGTH, np.int64))
                whole[block.low : block.low + block.counts.shape[1]] += block.counts[row].astype(np.int64)
    return {key: whole.tolist() for key, whole in sorted(found.items())}


@settings(max_examples=150, deadline=None)
@given(st.lists(blocks(), max_size=8), st.booleans(), st.sampled_from([1, 40, 8_000_000]))
def test_counts_are_exact(given: list[tuple[int, HistogramBlock]], as_rows: bool, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histogram_sums, "CELLS_AT_ONCE", at_once)
        whole = sums_of(given, None, as_rows=as_rows).series()
        stepped = sums_of(given, 10.0, as_rows=as_rows)
    assert {(one.labels["node"], 0): one.total.counts.tolist() for one in whole} == counted(given, 1000)
    assert {
        (one.labels["node"], (time - EPOCH) // timedelta(seconds=10)): sketch.counts.tolist()
        for one in stepped.series()
        for time, sketch in one.steps
    } == counted(given, 10)
    for one, other in zip(whole, stepped.series(), strict=True):
        assert (one.labels, one.total.counts.tolist()) == (other.labels, other.total.counts.tolist())
        assert one.total.relative_error == RELATIVE_ERROR and (one.total.minimum, one.total.maximum) == (0.5, 2.0)
        assert [time for time, _ in other.steps] == sorted({time for time, _ in other.steps})


@pytest.mark.parametrize("rows", [2, FEW_ROWS, FEW_ROWS + 1])
@pytest.mark.parametrize("largest", [255, 2**32 - 1])
def test_long_runs_hold_their_sums(rows: int, largest: int) -> None:
    """The second group is shorter than the first."""
    counts = np.full((rows, 3), largest, np.uint8 if largest == 255 else np.uint32)
    given = [(5 * at, block_of([1, 3], 7, counts[:2])) for at in range(rows)]
    given += [(0, block_of([1], 7, counts[:1]))]
    one, other = sums_of(given, 1000.0, as_rows=True).series()
    assert one.total.counts[7:10].tolist() == [(rows + 1) * largest] * 3
    assert other.total.counts[7:10].tolist() == [rows * largest] * 3


def test_nothing_is_nothing() -> None:
    assert sums_of([], None).series() == [] and sums_of([], 10.0).series() == []
    assert sums_of([(0, block_of([2], 0, np.ones((1, 1), np.uint8)))], 10.0).series() == []


def test_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histogram_sums, "MAX_ROWS", 3)
    given = [(5 * at, block_of([1], 0, np.ones((1, 1), np.uint8))) for at in range(4)]
    assert len(sums_of(given[:3], 5.0).times) == 3
    with pytest.raises(BadRequest, match="groups times steps"):
        sums_of(given, 5.0)
