"""Parts that add up to the shift, a planted group that is named, and silence where nothing was planted."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controlplane.contract.histogram import AXIS_LENGTH, axis_position
from controlplane.evidence.shifts.mixture import LEAST
from controlplane.evidence.shifts.quantile_shift import QuantileShift, quantile_of_t, quantile_shift
from tests.soak import soak

BLOCKS = 12


def counted(values: Any) -> Any:
    places = [axis_position(float(value)) for value in values]
    return np.bincount(places, minlength=AXIS_LENGTH)


def side(chance: np.random.Generator, sizes: list[int], factors: list[float], drift: float = 0.0) -> Any:
    """int64[blocks, groups, axis] of lognormal latencies; `drift`: of a block's level, common to all groups."""
    blocks = []
    for _ in range(BLOCKS):
        level = np.exp(chance.normal(0.0, drift))
        groups = [
            counted(level * factor * chance.lognormal(-2.0, 0.6, chance.poisson(size)))
            for size, factor in zip(sizes, factors, strict=True)
        ]
        blocks.append(np.stack(groups))
    return np.stack(blocks)


def parts_of(found: QuantileShift) -> float:
    return found.mix.value + sum(group.within.value for group in found.groups) + found.rest


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@example(sizes=[(1, 1), (1, 2)], factors=[1.0, 2.0, *[1.0] * 7], q=0.5, seed=0)  # A group of few requests.
@given(
    sizes=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=9),
    factors=st.lists(st.floats(0.2, 5.0), min_size=9, max_size=9),
    q=st.sampled_from([0.5, 0.95, 0.99]),
    seed=st.integers(0, 2**16),
)
def test_mix_and_groups_add_up_to_the_shift(
    sizes: list[tuple[int, int]], factors: list[float], q: float, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    before = side(chance, [then + 1 for then, _ in sizes], [1.0] * len(sizes))
    during = side(chance, [now + 1 for _, now in sizes], factors[: len(sizes)])
    found = quantile_shift(before, during, q, 0)
    assert parts_of(found) == pytest.approx(found.during - found.before, abs=1e-9 * (found.before + found.during))
    if min(blocks.sum(axis=(0, 2)).min() for blocks in (before, during)) < LEAST:
        return  # Such a group has no distribution of its own there, so that the quantile is not of what was counted.
    for value, blocks in ((found.before, before), (found.during, during)):
        cumulative = blocks.sum(axis=(0, 1)).cumsum()
        place = axis_position(value * (1 - 1e-9))
        below, upto = cumulative[place - 1] / cumulative[-1], cumulative[place] / cumulative[-1]
        assert below - 1e-9 <= q <= upto + 1e-9


def test_one_slow_node_of_four_is_named_alone() -> None:
    chance = np.random.default_rng(1)
    before = side(chance, [40] * 4, [1.0] * 4, 0.03)
    during = side(chance, [40] * 4, [1.0, 1.0, 2.0, 1.0], 0.03)
    found = quantile_shift(before, during, 0.99, 0)
    assert [group.place for group in found.groups if group.is_named] == [2]
    slow = found.groups[2]
    assert slow.within.value > 0.8 * found.shift and slow.isolation > 0.8
    assert slow.apart is not None and slow.apart.low < 2.0 < slow.apart.high
    assert abs(found.mix.value) < 0.2 * found.shift


def test_a_slowdown_of_three_windows_is_long_enough() -> None:
    chance = np.random.default_rng(8)
    before, during = side(chance, [40] * 4, [1.0] * 4, 0.03), side(chance, [40] * 4, [1.0, 1.0, 2.5, 1.0], 0.03)[:3]
    assert [group.place for group in quantile_shift(before, during, 0.95, 0).groups if group.is_named] == [2]


def test_a_node_whose_slow_requests_are_too_few_is_named_by_its_slower_half() -> None:
    """A hundred requests a node, of which four take seven times as long: one more or less of these makes the mean of a
    slow dozen."""
    chance = np.random.default_rng(9)

    def node(factor: float) -> Any:
        longer = 1.0 + 6.0 * (chance.random(chance.poisson(10)) < 0.04)
        return counted(0.035 * factor * longer * chance.lognormal(0.0, 0.3, longer.size))

    def served(factors: list[float], blocks: int) -> Any:
        return np.stack([np.stack([node(factor) for factor in factors]) for _ in range(blocks)])

    found = [quantile_shift(served([1.0] * 4, BLOCKS), served([1.0, 1.0, 2.0, 1.0], 10), 0.95, 0) for _ in range(6)]
    assert [[group.place for group in one.groups if group.is_named] for one in found] == [[2]] * 6
    assert sum(one.groups[2].apart is not None and one.groups[2].apart.low > 1.0 for one in found) < 3


def test_all_slower_names_none_however_the_tail_is_made_up() -> None:
    """The longest prompts are nearly all of the tail; but the others got as much slower."""
    chance = np.random.default_rng(2)
    before = side(chance, [60, 40, 10], [1.0, 2.0, 10.0], 0.03)
    during = side(chance, [60, 40, 10], [1.5, 3.0, 15.0], 0.03)
    found = quantile_shift(before, during, 0.99, 0)
    assert found.groups[2].within.value > 0.8 * found.shift
    assert not any(group.is_named for group in found.groups)
    assert found.groups[2].isolation < 0.3


def test_where_all_take_as_many_seconds_more_the_quick_ones_are_no_place() -> None:
    """A delay before all of them: those that take a tenth of a second get twice as slow, the others hardly slower."""
    chance = np.random.default_rng(6)

    def served(more_s: float) -> Any:
        blocks = [
            [0.1 * chance.lognormal(0.0, 0.2, 40) + more_s, 1.0 * chance.lognormal(0.0, 0.2, 4) + more_s]
            for _ in range(BLOCKS)
        ]
        return np.stack([np.stack([counted(values) for values in groups]) for groups in blocks])

    quick, slow = quantile_shift(served(0.0), served(0.1), 0.9, 0).groups
    assert quick.is_named and quick.own is not None and quick.own > 1.5
    assert quick.isolation < 0.4 and slow.isolation < 0.4


def test_more_long_prompts_are_a_change_of_the_mix() -> None:
    chance = np.random.default_rng(3)
    before = side(chance, [60, 40, 1], [1.0, 2.0, 10.0], 0.03)
    during = side(chance, [60, 40, 12], [1.0, 2.0, 10.0], 0.03)
    found = quantile_shift(before, during, 0.99, 0)
    assert found.mix.low > 0.5 * found.shift and found.grown == 2


def test_what_was_not_there_before_only_came() -> None:
    chance = np.random.default_rng(4)
    before = side(chance, [60, 0], [1.0, 1.0])
    during = side(chance, [60, 20], [1.0, 5.0])
    found = quantile_shift(before, during, 0.99, 0)
    assert found.mix.value == pytest.approx(found.shift, rel=0.1) and found.grown == 1
    assert found.groups[1].within.value == pytest.approx(0.0, abs=1e-12)


def test_beyond_six_groups_the_smaller_ones_are_taken_together() -> None:
    chance = np.random.default_rng(5)
    before, during = side(chance, [20] * 9, [1.0] * 9), side(chance, [20] * 9, [2.0] * 9)
    found = quantile_shift(before, during, 0.95, 0)
    assert len(found.groups) == 6 and found.rest > 0.0


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize(("drift", "blocks"), [(0.0, BLOCKS), (0.05, BLOCKS), (0.05, 4)])
def test_nothing_planted_names_a_group_in_at_most_one_of_twenty(drift: float, blocks: int) -> None:
    """Of 15 or 60 pairs of equal sides; a rate of 5 % exceeds 3, or 7, with 1 %."""
    chance = np.random.default_rng(6)
    excluded = named = 0
    for seed in range(soak(15, 60)):
        before, during = (side(chance, [30] * 4, [1.0, 1.0, 1.5, 3.0], drift) for _ in range(2))
        found = quantile_shift(before, during[:blocks], 0.95, 0, seed)
        told = [found.mix, *(group.within for group in found.groups)]
        excluded += any(one.low > 0.0 or one.high < 0.0 for one in told)
        named += any(group.is_named for group in found.groups)
    most = soak(3, 7)
    assert excluded <= most and named <= most


def test_an_empty_side_is_refused() -> None:
    some = side(np.random.default_rng(7), [5], [1.0])
    with pytest.raises(ValueError, match="no values"):
        quantile_shift(some, np.zeros_like(some), 0.9, 0)


@pytest.mark.parametrize(("freedom", "exact"), [(5, 2.571), (11, 2.201), (30, 2.042), (1000, 1.962)])
def test_student(freedom: int, exact: float) -> None:
    """Tables of Student's t, two-sided 95 %."""
    assert quantile_of_t(0.975, freedom) == pytest.approx(exact, rel=0.005)
