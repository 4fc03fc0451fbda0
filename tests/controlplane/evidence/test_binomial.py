"""Bounds of one count: they hold what they bound, by the exact distribution and by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from controlplane.evidence.binomial import Z_95, Z_99, log_likelihood_ratio, tail_bound, wilson_upper


def test_wilson_bound_covers() -> None:
    random = np.random.default_rng(4)
    covered = [wilson_upper(k, 400, Z_95) >= 0.05 for k in random.binomial(400, 0.05, size=4000)]
    assert 0.93 <= float(np.mean(covered)) <= 0.98
    assert 0.0 < wilson_upper(0, 100, Z_95) < 0.05 and wilson_upper(100, 100, Z_95) == 1.0


def test_the_quantiles_of_one_sided_bounds() -> None:
    assert stats.norm.cdf([Z_95, Z_99]) == pytest.approx([0.95, 0.99], abs=1e-4)


@given(st.integers(1, 60), st.floats(0.01, 0.5))
def test_chance_is_an_upper_bound(n: int, share: float) -> None:
    for k in range(0, n + 1, max(1, n // 5)):
        exact = sum(math.comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(k, n + 1))
        assert exact <= tail_bound(k, n, share) + 1e-9


@given(st.integers(1, 40), st.floats(0.01, 0.9), st.floats(0.01, 0.99))
def test_a_likelihood_ratio_is_an_e_value_of_its_null(n: int, null: float, alternative: float) -> None:
    weights = stats.binom(n, null).pmf(range(n + 1))
    values = np.exp([log_likelihood_ratio(k, n, null, alternative) for k in range(n + 1)])
    assert float(weights @ values) == pytest.approx(1.0)
