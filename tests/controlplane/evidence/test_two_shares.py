"""Exact test, interval, strength and correction against scipy, by their definitions, and by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from controlplane.evidence.two_shares import cramers_v, fisher_exact, holm, newcombe, stratified_difference

COUNT = st.integers(0, 60)
POSITIVE = st.integers(1, 60)


@given(POSITIVE, POSITIVE, st.data())
def test_the_exact_test_is_scipys(of_inside: int, of_outside: int, data: st.DataObject) -> None:
    inside, outside = data.draw(st.integers(0, of_inside)), data.draw(st.integers(0, of_outside))
    wanted = stats.fisher_exact([[inside, of_inside - inside], [outside, of_outside - outside]]).pvalue
    assert fisher_exact(inside, of_inside, outside, of_outside) == pytest.approx(wanted, rel=1e-6, abs=1e-12)


@given(POSITIVE, POSITIVE, st.data())
def test_the_interval_holds_the_difference_and_is_mirrored(of_a: int, of_b: int, data: st.DataObject) -> None:
    a, b = data.draw(st.integers(0, of_a)), data.draw(st.integers(0, of_b))
    found, other = newcombe(a, of_a, b, of_b, 1.96), newcombe(b, of_b, a, of_a, 1.96)
    assert -1.0 <= found.low <= a / of_a - b / of_b <= found.high <= 1.0
    assert [other.low, other.high] == pytest.approx([-found.high, -found.low])
    wider = newcombe(a, of_a, b, of_b, 3.0)
    assert wider.low <= found.low + 1e-12 and wider.high >= found.high - 1e-12


def test_newcombes_own_example() -> None:
    """56/70 against 48/80, table II of the paper: 0.0524 to 0.3339."""
    found = newcombe(56, 70, 48, 80, 1.959964)
    assert [found.low, found.high] == pytest.approx([0.0524, 0.3339], abs=5e-5)


@pytest.mark.parametrize(("share_a", "share_b", "of_a", "of_b"), [(0.3, 0.3, 40, 400), (0.05, 0.2, 80, 80)])
def test_the_interval_covers_what_is_true(share_a: float, share_b: float, of_a: int, of_b: int) -> None:
    rng = np.random.default_rng(1)
    runs = 2000
    found = [
        newcombe(int(a), of_a, int(b), of_b, 1.96)
        for a, b in zip(rng.binomial(of_a, share_a, runs), rng.binomial(of_b, share_b, runs), strict=True)
    ]
    covered = sum(one.low <= share_a - share_b <= one.high for one in found)
    assert covered / runs > 0.935


def test_strength_is_none_without_a_difference_and_whole_where_values_decide() -> None:
    assert cramers_v(np.array([500, 0]), np.array([0, 500])) == pytest.approx(1.0)
    assert cramers_v(np.array([50, 50]), np.array([500, 500])) == 0.0
    assert cramers_v(np.array([5]), np.array([7])) == cramers_v(np.array([0, 0]), np.array([3, 4])) == 0.0
    rng = np.random.default_rng(3)
    many = [
        cramers_v(*(np.bincount(rng.integers(0, 200, size), minlength=200) for size in (400, 2000))) for _ in range(50)
    ]
    assert np.mean(many) < 0.06, "200 values of nothing look strong without the correction"


@given(st.lists(st.floats(0.0, 1.0), max_size=20))
def test_holm_is_by_its_definition(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    for rank, place in enumerate(order):
        stepwise = [min(1.0, p_values[at] * (len(order) - before)) for before, at in enumerate(order[: rank + 1])]
        assert adjusted[place] == max(stepwise)


def test_within_strata_what_only_goes_along_vanishes() -> None:
    # In either stratum half of both groups have the value; the strata are of different sizes inside and outside.
    of_inside, of_outside = np.array([80, 20]), np.array([100, 900])
    same = stratified_difference(of_inside // 2, of_inside, of_outside // 2, of_outside)
    assert same == pytest.approx(0.0)
    more = stratified_difference(of_inside, of_inside, of_outside // 2, of_outside)
    assert more == pytest.approx(0.5)
    none = np.array([0, 0])
    assert stratified_difference(none, none, none, of_outside) is None
