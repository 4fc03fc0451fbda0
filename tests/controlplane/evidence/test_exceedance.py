"""e-values: mean one under the null by enumeration, the exact form never below its bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from controlplane.evidence import exceedance
from controlplane.evidence.exceedance import log_e, noncentral

LOG_ODDS = np.log(np.array([1.1, 1.5, 3.0, 1 / 1.1, 1 / 5]))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 25), st.integers(0, 25))
def test_mean_is_one_given_the_margins(n_a: int, n_b: int) -> None:
    n = n_a + n_b
    for k in range(n + 1):
        low, high = max(0, k - n_a), min(k, n_b)
        weights = stats.hypergeom(n, k, n_b).pmf(range(low, high + 1)) if n else np.ones(1)
        values = np.array([np.exp(log_e(j, k, n_a, n_b, LOG_ODDS)) for j in range(low, high + 1)])
        assert np.allclose(weights @ values, 1.0)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.05, 0.95), st.just(0.0) | st.floats(1e-6, 1.0))
def test_a_canary_that_exceeds_less_earns_no_evidence_of_harm(n_a: int, n_b: int, rate: float, share: float) -> None:
    worse = np.log(np.array([1.5, 5.0]))
    mean = np.zeros(2)
    for k_a in range(n_a + 1):
        for k_b in range(n_b + 1):
            chance = stats.binom(n_a, rate).pmf(k_a) * stats.binom(n_b, rate * share).pmf(k_b)
            mean += chance * np.exp(log_e(k_b, k_a + k_b, n_a, n_b, worse))
    assert (mean <= 1 + 1e-9).all()


def test_the_bound_for_large_counts_is_below_the_exact_value(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = log_e(60, 100, 300, 120, LOG_ODDS)
    monkeypatch.setattr(exceedance, "EXACT_LIMIT", 10)
    bound = log_e(60, 100, 300, 120, LOG_ODDS)
    assert (bound <= exact + 1e-12).all()
    assert np.allclose(bound, 60 * LOG_ODDS - 100 * np.log1p(120 / 420 * np.expm1(LOG_ODDS)))


def test_it_is_exact_where_margins_leave_few_places_however_large_the_counts() -> None:
    k, n_a, n_b = 2990, 5, 3000
    places = np.arange(2985, 2991)
    chances = stats.hypergeom.pmf(places, n_a + n_b, n_b, k)
    mean = [(chances * np.exp(log_odds * (places - 2988))).sum() for log_odds in LOG_ODDS]
    assert log_e(2988, k, n_a, n_b, LOG_ODDS) == pytest.approx(-np.log(mean))


def test_no_place_beyond_the_margins_counts_whatever_factorials_are_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exceedance, "log_factorials", lambda n: special.gammaln(np.arange(n + 1) + 1.0))
    assert log_e(1, 1, 1, 1, LOG_ODDS) == pytest.approx(LOG_ODDS - np.log((1 + np.exp(LOG_ODDS)) / 2))


@pytest.mark.parametrize(("k_b", "k", "n_a", "n_b"), [(0, 0, 5, 5), (0, 3, 5, 0), (3, 3, 0, 5), (10, 15, 5, 10)])
def test_margins_that_teach_nothing_give_no_evidence(k_b: int, k: int, n_a: int, n_b: int) -> None:
    assert (log_e(k_b, k, n_a, n_b, LOG_ODDS) == 0).all()


def test_expected_counts_and_their_variance() -> None:
    central = stats.hypergeom(150, 30, 50)
    assert noncentral(30, 100, 50, 1.0) == pytest.approx((central.mean(), central.var()))
    for odds in (0.2, 3.0):
        exact = stats.nchypergeom_fisher(150, 30, 50, odds)
        assert noncentral(30, 100, 50, odds) == pytest.approx((exact.mean(), exact.var()), rel=0.05)
    assert [noncentral(k, 10, n_b, 2.0)[1] for k, n_b in ((0, 10), (20, 10), (1, 0))] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("k", "n_a", "n_b", "mean"), [(3, 0, 5, 3.0), (3, 5, 0, 0.0), (20, 10, 10, 10.0), (0, 10, 10, 0.0), (1, 1, 0, 0.0)]
)
def test_margins_that_leave_nothing_open_say_the_count_itself(k: int, n_a: int, n_b: int, mean: float) -> None:
    assert noncentral(k, n_a, n_b, 2.0) == (mean, 0.0)


@pytest.mark.parametrize(("k", "n_a", "n_b"), [(30, 40, 50), (70, 40, 50), (12, 20, 8), (200, 400, 300)])
@pytest.mark.parametrize("odds", [0.2, 0.7, 1.0, 1.5, 6.0])
def test_the_approximation_is_near_whichever_margin_binds(k: int, n_a: int, n_b: int, odds: float) -> None:
    exact = stats.nchypergeom_fisher(n_a + n_b, k, n_b, odds)
    mean, variance = noncentral(k, n_a, n_b, odds)
    assert mean == pytest.approx(exact.mean(), abs=0.12)
    assert variance == pytest.approx(exact.var(), rel=0.06)


@pytest.mark.parametrize(
    ("k", "n_a", "n_b"), [(1, 1, 1), (1, 40, 50), (2, 1, 3), (30, 40, 50), (12, 20, 8), (89, 40, 50)]
)
@pytest.mark.parametrize("odds", [0.001, 0.2, 1.5, 6.0])
def test_the_mean_solves_cornfields_equation_whatever_the_counts(k: int, n_a: int, n_b: int, odds: float) -> None:
    mean, variance = noncentral(k, n_a, n_b, odds)
    assert mean * (n_a - k + mean) == pytest.approx(odds * (n_b - mean) * (k - mean), rel=1e-4)
    assert variance > 0.0
