"""The last word is honest: intervals cover, and no verdict is better than its evidence."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from controlplane.contract.bodies.studies import StudyVerdict
from tuner.study.remeasure import (
    BLOCKS,
    DEFAULT,
    INTERLEAVED,
    WINNER,
    Improvement,
    blocks,
    changes_of,
    design_for,
    improvement,
    looks_at,
    order,
    verdict,
)


@given(st.integers(2, 20))
def test_runs_are_interleaved_and_balanced(repeats: int) -> None:
    runs = order(repeats)
    assert len(runs) == 2 * repeats
    assert all({arm for pair, arm in runs if pair == wanted} == {DEFAULT, WINNER} for wanted in range(repeats))
    firsts = [runs[2 * pair][1] for pair in range(repeats)]
    assert abs(firsts.count(DEFAULT) - firsts.count(WINNER)) <= 1


@given(st.lists(st.tuples(st.floats(0.01, 10), st.floats(0.01, 10)), min_size=2, max_size=10))
def test_the_estimate_lies_in_its_interval_below_one(pairs: list[tuple[float, float]]) -> None:
    found = improvement([a for a, _ in pairs], [b for _, b in pairs])
    assert found.low <= found.estimate + 1e-9 and found.estimate <= found.high + 1e-9 and found.high <= 1


@given(st.lists(st.tuples(st.floats(0.01, 10), st.floats(0.01, 10)), min_size=2, max_size=10))
def test_swapping_the_arms_never_leaves_both_better(pairs: list[tuple[float, float]]) -> None:
    a, b = [one for one, _ in pairs], [other for _, other in pairs]
    both = [verdict(improvement(x, y), {}) for x, y in ((a, b), (b, a))]
    assert both.count(StudyVerdict.BETTER) <= 1


def test_equal_configurations_are_rarely_called_better() -> None:
    random = np.random.default_rng(1)
    wrong = covered = 0
    for _ in range(1000):
        a, b = np.exp(random.normal(0, 0.1, (2, 3)))
        found = improvement(a.tolist(), b.tolist())
        wrong += verdict(found, {}) is StudyVerdict.BETTER
        covered += found.low <= 0 <= found.high
    assert wrong <= 40  # 2.5 % expected; and the interval covers the truth in about 95 %.
    assert 930 <= covered <= 970


def test_two_looks_miss_the_truth_no_more_often_than_one() -> None:
    random = np.random.default_rng(2)
    first, last = looks_at(4, 12, INTERLEAVED)
    missed = 0
    for _ in range(1000):
        a, b = np.exp(random.normal(0, 0.3, (2, last)))
        found = improvement(a[:first].tolist(), b[:first].tolist(), looks=2)
        if not found.decided:
            found = improvement(a.tolist(), b.tolist(), looks=2)
        missed += not found.low <= 0 <= found.high
    assert missed <= 65  # 5 % at most are expected; 65 is two standard deviations above.


def test_what_noise_hides_from_the_first_look_the_second_sees() -> None:
    random = np.random.default_rng(3)
    early = late = 0
    for _ in range(200):
        a, b = np.exp(random.normal(0, 0.3, (2, 12)))
        b *= 0.6
        early += improvement(a[:4].tolist(), b[:4].tolist(), looks=2).low > 0
        late += improvement(a.tolist(), b.tolist(), looks=2).low > 0
    assert early < 100 < 180 < late


def test_blocks_and_a_full_number_of_pairs_are_looked_at_once() -> None:
    assert looks_at(4, 12, INTERLEAVED) == (4, 12)
    assert looks_at(4, 4, INTERLEAVED) == (4,) and looks_at(4, 12, BLOCKS) == (12,)


def test_a_clear_winner_is_better_unless_it_breaks_a_limit() -> None:
    found = improvement([1.0, 1.1, 0.9], [0.5, 0.52, 0.47])
    assert found.estimate == pytest.approx(1 - math.exp(np.mean(np.log(np.array([0.5, 0.52 / 1.1, 0.47 / 0.9])))))
    assert verdict(found, {"ttft:0.95": -0.1}) is StudyVerdict.BETTER
    assert verdict(found, {"ttft:0.95": 0.01}) is StudyVerdict.NOT_BETTER


def test_one_pair_gives_no_interval() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        improvement([1.0], [0.5])


def test_blocks_begin_and_end_with_the_outer_arm() -> None:
    assert blocks(3, DEFAULT) == [(0, DEFAULT), (1, DEFAULT), (0, WINNER), (1, WINNER), (2, WINNER), (2, DEFAULT)]
    assert blocks(2, WINNER) == [(0, WINNER), (0, DEFAULT), (1, DEFAULT), (1, WINNER)]


@pytest.mark.parametrize("repeats", [2, 3, 6])
def test_a_design_has_as_many_changes_as_its_order_shows(repeats: int) -> None:
    interleaved, inner = [arm for _, arm in order(repeats)], [arm for _, arm in blocks(repeats, DEFAULT)]
    assert sum(a != b for a, b in pairwise(interleaved)) == changes_of(INTERLEAVED, repeats)
    assert sum(a != b for a, b in pairwise(inner)) == changes_of(BLOCKS, repeats)


def test_dear_changes_are_interleaved_while_all_of_the_runs_and_changes_can_be_paid_for() -> None:
    """Two pairs: four runs of 10 s, a change to the first arm and two between them, of 60 s."""
    assert design_for(2, run_s=10.0, change_s=60.0, cheap_s=5.0, left_s=220.0) == INTERLEAVED
    assert design_for(2, run_s=10.0, change_s=60.0, cheap_s=5.0, left_s=219.0) == BLOCKS
    assert design_for(2, run_s=10.0, change_s=5.0, cheap_s=5.0, left_s=0.0) == INTERLEAVED


@pytest.mark.parametrize(
    ("low", "high", "decided"), [(0.1, 0.3, True), (-0.3, -0.1, True), (-0.1, 0.3, False), (0.0, 0.5, False)]
)
def test_an_interval_decides_when_it_lies_on_one_side_of_zero(low: float, high: float, decided: bool) -> None:
    assert Improvement((low + high) / 2, low, high, 3).decided is decided


def test_an_interval_is_students() -> None:
    ratios = np.log([0.5, 0.6, 0.4, 0.55])
    low, high = stats.t.interval(0.95, 3, loc=ratios.mean(), scale=stats.sem(ratios))
    found = improvement([1.0] * 4, [0.5, 0.6, 0.4, 0.55])
    assert (found.low, found.high, found.repeats) == (
        pytest.approx(1 - math.exp(high)),
        pytest.approx(1 - math.exp(low)),
        4,
    )
