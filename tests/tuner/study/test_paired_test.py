"""The paired test keeps its level whatever ends it, covers the truth, and sees what is there."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tuner.study.paired_test import (
    ALPHA,
    BOUNDS,
    EARLY_SPENT,
    FEWEST_PAIRS,
    HOPELESS_FROM,
    MOST_PAIRS,
    counts_sd,
    fenced,
    is_hopeless,
    log_ratios,
    look,
    look_once,
    upper_mean,
)

ratios = st.lists(st.floats(-3, 3), min_size=2, max_size=MOST_PAIRS)


def _ends(values: np.ndarray, last: int) -> tuple[bool, bool]:
    """Whether it was called better, and whether its interval ever missed the truth, 0."""
    better = missed = False
    for pairs in range(FEWEST_PAIRS, last + 1):
        found = look(values[:pairs].tolist(), last)
        better |= found.low > 0
        missed |= found.decided
    return better, missed


@pytest.mark.parametrize(("last", "noise"), [(4, 0.05), (10, 0.3)])
def test_equal_arms_are_called_better_as_seldom_as_promised_at_any_look(last: int, noise: float) -> None:
    """Of 3000 about 60 are expected, and 120 misses; the limits are three standard deviations above."""
    random = np.random.default_rng(last)
    ends = [_ends(noise * random.standard_normal(last), last) for _ in range(3000)]
    assert sum(better for better, _ in ends) <= 3000 * ALPHA + 3 * math.sqrt(3000 * ALPHA)
    assert sum(missed for _, missed in ends) <= 3000 * 2 * ALPHA + 3 * math.sqrt(3000 * 2 * ALPHA)


def test_a_true_gain_is_found_and_a_large_one_early() -> None:
    """15 % at 10 % noise a run in twelve pairs."""
    random = np.random.default_rng(1)

    def pairs(gain: float) -> np.ndarray:
        return math.log(1 - gain) + 0.1 * math.sqrt(2) * random.standard_normal(12)

    found = [_ends(pairs(0.15), 12)[0] for _ in range(1000)]
    assert np.mean(found) > 0.88
    soon = [
        next(n for n in range(3, 11) if look(values[:n].tolist(), 10).low > 0) for values in map(pairs, [0.5] * 200)
    ]
    assert np.median(soon) <= 5


@given(ratios, st.integers(0, 5))
def test_an_interval_holds_its_estimate_and_an_early_one_is_wider(values: list[float], more: int) -> None:
    last = look(values, len(values))
    assert last.low <= last.estimate <= last.high <= 1 and last.repeats == len(values)
    early = look(values, min(MOST_PAIRS, len(values) + 1 + more)) if len(values) < MOST_PAIRS else last
    assert early.low <= last.low and early.high >= last.high


@given(ratios)
def test_swapped_arms_are_never_both_better(values: list[float]) -> None:
    both = [look(signed, len(values)).low > 0 for signed in (values, [-value for value in values])]
    assert both.count(True) <= 1


def test_the_bounds_spend_what_was_planned_and_fall() -> None:
    assert set(BOUNDS) == set(range(FEWEST_PAIRS, MOST_PAIRS + 1))
    assert BOUNDS[2][1] == pytest.approx(stats.t.ppf(1 - ALPHA, 1), rel=0.02)  # No look before it.
    assert BOUNDS[3][0] == pytest.approx(stats.t.ppf(1 - EARLY_SPENT[3], 2), rel=0.03)
    finals = [final for _, final in BOUNDS.values()]
    assert finals == sorted(finals, reverse=True)
    assert all((pairs in EARLY_SPENT) == (early < math.inf) for pairs, (early, _) in BOUNDS.items())


def test_a_single_look_is_students() -> None:
    values = np.log([0.5, 0.6, 0.4, 0.55])
    low, high = stats.t.interval(1 - 2 * ALPHA, 3, loc=values.mean(), scale=stats.sem(values))
    found = look_once(values.tolist())
    assert (found.low, found.high) == (pytest.approx(1 - math.exp(high)), pytest.approx(1 - math.exp(low)))


def _stalling(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Log ratios of pairs of runs of which one of twenty takes two to eight times as long, in either arm."""
    arms = 0.06 * random.standard_normal((2, *shape))
    arms += (random.random((2, *shape)) < 0.05) * random.uniform(math.log(2), math.log(8), (2, *shape))
    return arms[1] - arms[0]


def test_runs_far_off_make_equal_arms_no_better() -> None:
    """Of 2000 about 30 are; the limit is what is promised of normal noise, and three standard deviations."""
    ends = [_ends(values, 12)[0] for values in _stalling(np.random.default_rng(3), 2000, 12)]
    assert 5 <= sum(ends) <= 2000 * ALPHA + 3 * math.sqrt(2000 * ALPHA)


def test_runs_far_off_hide_no_gain() -> None:
    """15 %: Student's t finds it in six of ten, fences in more than eight."""
    drawn = math.log(0.85) + _stalling(np.random.default_rng(4), 600, 12)
    assert np.mean([_ends(values, 12)[0] for values in drawn]) > 0.78


def test_what_is_far_off_is_moved_to_its_fence_and_nothing_else() -> None:
    near = [0.1, -0.2, 0.0, 0.2, -0.1]
    assert fenced([*near, 3.0])[:5] == near and 0.2 < fenced([*near, 3.0])[5] < 1.5
    assert fenced([0.0, 0.1, 3.0]) == [0.0, 0.1, 3.0], "of few nobody knows what is far"
    assert fenced([*near, 0.3]) == [*near, 0.3]


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.97, 0.8])
def test_equal_counts_of_good_requests_are_called_better_as_seldom_as_promised(share: float) -> None:
    """Of twenty requests a run few figures come out, and three pairs are often equal: without the counts' own scatter
    that would count as certain. Of 2000 about 40 are expected."""
    random = np.random.default_rng(7)
    better = 0
    for _ in range(2000):
        good = random.binomial(20, share, (2, 12))
        for pairs in range(FEWEST_PAIRS, 13):
            default, candidate = ([20.0 / max(one, 0.5) for one in arm[:pairs]] for arm in good)
            counts = [(int(arm[:pairs].sum()), 20 * pairs, pairs) for arm in good]
            if look(log_ratios(default, candidate), 12, counts_sd(*counts)).low > 0:
                better += 1
                break
    assert better <= 2000 * ALPHA + 3 * math.sqrt(2000 * ALPHA)
    assert look([-0.051] * 4, 12).low > 0 > look([-0.051] * 4, 12, counts_sd((76, 80, 4), (80, 80, 4))).low


def test_one_pair_says_nothing() -> None:
    found = look([-0.5], 10)
    assert not found.decided and found.high == pytest.approx(1.0)


def test_who_is_behind_after_some_pairs_is_given_up() -> None:
    assert is_hopeless([0.1, -0.2, 0.1, 0.1, 0.0, 0.0])
    assert not is_hopeless([-0.1, -0.2, -0.1, -0.15, -0.1, 2.0]), "one run that stalled"
    assert not is_hopeless([0.1] * (HOPELESS_FROM - 1)) and not is_hopeless([0.1, -0.2, 0.1, 0.1, -0.2, 0.0])


def test_a_mean_is_bounded_by_its_runs_scatter() -> None:
    assert upper_mean([-1.0, -1.0, -1.0], 0.9) == -1.0
    assert upper_mean([-1.0, 1.0], 0.9) == pytest.approx(stats.t.ppf(0.9, 1))
    assert upper_mean([-1.0], 0.9) == math.inf


def test_ratios_are_of_pairs() -> None:
    assert log_ratios([1.0, 2.0], [0.5, 2.0]) == [pytest.approx(math.log(0.5)), 0.0]
