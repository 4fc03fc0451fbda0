"""Ranks by their definition against scipy, and intervals that hold what is true."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from controlplane.evidence.order_statistics import EXACT_UP_TO, Estimate, difference, needed, ranks, ratio

LEVELS = st.sampled_from([0.5, 0.9, 0.95, 0.99])
QUANTILES = st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.95, 0.99])


@given(st.integers(1, 3000), QUANTILES, LEVELS)
def test_each_side_errs_with_half_of_the_rest_at_most_and_no_rank_nearer_does(
    count: int, q: float, level: float
) -> None:
    found, tail = ranks(count, q, level), (1.0 - level) / 2.0
    assert (found is None) == (count < needed(q, level))
    if found is None:
        return
    low, high = found
    below = stats.binom(count, q).cdf
    assert 0 <= low < high < count and below(low) <= tail * (1 + 1e-6) and 1.0 - below(high) <= tail * (1 + 1e-6)
    assert below(low + 1) > tail * (1 - 1e-6) and 1.0 - below(high - 1) > tail * (1 - 1e-6)


def test_a_p99_wants_368_values() -> None:
    assert needed(0.99, 0.95) == 368 and needed(0.5, 0.95) == 6 and needed(0.01, 0.95) == needed(0.99, 0.95)


@pytest.mark.parametrize("q", [0.5, 0.99])
def test_above_the_exact_limit_ranks_are_hardly_wider(q: float) -> None:
    count = 4 * EXACT_UP_TO
    low, high = ranks(count, q, 0.95) or (0, 0)
    exact = stats.binom(count, q).ppf([0.025, 0.975])
    assert low <= exact[0] <= low + 5 and high - 5 <= exact[1] <= high


@pytest.mark.parametrize(("sizes", "q", "scale"), [((400, 400), 0.9, 1.0), ((1000, 500), 0.95, 1.5)])
def test_differences_and_ratios_hold_what_is_true(sizes: tuple[int, int], q: float, scale: float) -> None:
    rng = np.random.default_rng(2)
    runs, held, held_ratio = 600, 0, 0
    truth = float(stats.lognorm(0.6).ppf(q))
    for _ in range(runs):
        ours, theirs = (
            estimated(np.sort(rng.lognormal(0.0, 0.6, size) * times), q)
            for size, times in zip(sizes, (scale, 1.0), strict=True)
        )
        apart, times = difference(ours, theirs), ratio(ours, theirs)
        held += apart.low <= truth * (scale - 1.0) <= apart.high
        assert times is not None
        held_ratio += times.low <= scale <= times.high
    assert held / runs > 0.93 and held_ratio / runs > 0.93


def test_a_ratio_to_nothing_is_none() -> None:
    assert ratio(Estimate(1.0, 0.5, 2.0), Estimate(0.1, 0.0, 0.2)) is None


def estimated(values: np.ndarray[tuple[int], np.dtype[np.float64]], q: float) -> Estimate:
    low, high = ranks(len(values), q, 0.95) or (0, 0)
    return Estimate(float(np.quantile(values, q)), float(values[low]), float(values[high]))
