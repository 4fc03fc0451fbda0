"""Bounds drawn in by a sum never cut off a value, and say more than the buckets alone."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.agent.reports.bucket_counts import BucketCounts

BOUNDS = (0.3, 0.5, 0.8, 1.0, 2.5)
durations = st.lists(st.floats(min_value=1e-5, max_value=50.0), min_size=1, max_size=40)


def counted(values: list[float]) -> BucketCounts:
    made = BucketCounts(BOUNDS)
    made.add(counts_of(values), sum(values))
    return made


def counts_of(values: list[float]) -> list[int]:
    counts = [0] * (len(BOUNDS) + 1)
    for value in values:
        counts[bisect_left(BOUNDS, value)] += 1
    return counts


@given(st.lists(durations, min_size=1, max_size=4))
def test_every_value_lies_within_the_bounds(groups: list[list[float]]) -> None:
    made = BucketCounts(BOUNDS)
    for values in groups:
        made.add(counts_of(values), sum(values))
    everything = [value for values in groups for value in values]
    assert made.count == len(everything) == sum(made.counts)
    assert made.total == pytest.approx(sum(everything))
    assert made.lowest <= min(everything) and max(everything) <= made.highest


def test_one_value_is_known_exactly() -> None:
    made = counted([0.0421])
    assert made.lowest == pytest.approx(0.0421) and made.highest == pytest.approx(0.0421)


def test_the_sum_bounds_what_lies_above_all_buckets() -> None:
    made = counted([0.1, 4.0, 7.0])
    assert 7.0 <= made.highest <= 11.1 - 2.5 + 1e-6
    assert made.lowest == 0.0


def test_nothing_counted_leaves_no_trace() -> None:
    made = BucketCounts(BOUNDS)
    made.add([0] * 6, 0.0)
    assert made.count == 0


@pytest.mark.parametrize(
    ("counts", "total"),
    [
        ([1] * 5, 1.0),
        ([1] * 7, 1.0),
        ([-1, 2, 0, 0, 0, 0], 1.0),
        ([0.5] * 6, 1.0),
        ([1] * 6, float("nan")),
        ([1] * 6, -1),
    ],
)
def test_what_is_no_histogram_is_refused_whole(counts: list[int], total: float) -> None:
    made = counted([0.1])
    with pytest.raises(ValueError):
        made.add(counts, total)
    assert made.count == 1 and made.total == 0.1


@pytest.mark.parametrize("bounds", [(), (1.0, 1.0), (2.0, 1.0), (1.0, float("inf"))])
def test_bounds_must_rise(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        BucketCounts(bounds)
