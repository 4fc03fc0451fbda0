"""Scores have mean 0 and variance 1 among the usual, and say what a change does to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from controlplane.contract.histogram import AXIS_LENGTH, BASE
from controlplane.evidence.scores import CLIP, KERNEL, NORMAL, Change, location, tail

counts = arrays(np.int64, 40, elements=st.integers(0, 50)).filter(lambda found: np.count_nonzero(found) > 2)


def on_axis(found: np.ndarray) -> np.ndarray:
    whole = np.zeros(AXIS_LENGTH, dtype=np.int64)
    whole[500 : 500 + found.size] = found
    return whole


@given(counts)
def test_the_usual_have_mean_0_and_variance_1(found: np.ndarray) -> None:
    for scoring in (location(on_axis(found)), tail(on_axis(found))):
        assert scoring.shares @ scoring.table == pytest.approx(0.0, abs=1e-9)
        assert scoring.shares @ scoring.table**2 == pytest.approx(scoring.variance, abs=1e-9)


@given(counts)
def test_slower_is_never_a_lower_score_by_place(found: np.ndarray) -> None:
    assert (np.diff(location(on_axis(found)).table) >= 0).all()


def test_where_requests_hardly_differ_a_bucket_of_drift_is_little_and_a_real_rise_is_not() -> None:
    alike = location(on_axis(np.array([700])))
    assert abs(alike.after(Change(BASE))) < 0.5 < 1.2 < alike.after(Change(1.1)) < alike.after(Change(1.5))


def test_a_shift_of_lognormal_requests_moves_their_score_by_its_size() -> None:
    random = np.random.default_rng(1)
    usual = on_axis(np.bincount(np.clip(100 + 0.3 / np.log(BASE) * random.normal(size=200_000), 0, 199).astype(int)))
    by_place, by_tail = location(usual), tail(usual)
    assert by_place.after(Change(1.1)) == pytest.approx(np.log(1.1) / 0.3, rel=0.1)
    for factor in (0.85, 0.9, 0.95, 1.05, 1.1, 1.15):
        assert by_tail.after(Change(factor)) == pytest.approx(0.0, abs=0.03), "drift of all is not the tail's to tell"
    assert by_tail.after(Change(2.0, 0.1)) > by_place.after(Change(2.0, 0.1))  # What it is for.
    assert by_place.after(Change(2.0, 0.1)) == pytest.approx(0.1 * by_place.after(Change(2.0)))


@given(counts)
def test_what_is_known_of_many_factors_at_once_is_to_the_bit_what_each_alone_says(found: np.ndarray) -> None:
    for scoring in (location(on_axis(found)), tail(on_axis(found))):
        places, factors = np.arange(AXIS_LENGTH), (0.1, 0.93, 1.1, 1.15, 7.0)
        alone = [
            float(scoring.shares @ np.interp(places + np.log(factor) / np.log(BASE), places, scoring.table))
            for factor in factors
        ]
        assert scoring.after_all(factors).tolist() == alone
        assert [scoring.after(Change(factor, 0.3)) for factor in factors] == [0.3 * one for one in alone]


@given(counts)
def test_normal_scores_are_to_the_bit_those_of_each_rank(found: np.ndarray) -> None:
    smooth = np.convolve(on_axis(found).astype(np.float64), KERNEL, mode="same")
    rank = (np.cumsum(smooth) - smooth + 0.5 * smooth + 0.5) / (smooth.sum() + 1.0)
    each = np.clip([NORMAL.inv_cdf(float(one)) for one in rank], -CLIP, CLIP)
    shares = smooth / smooth.sum()
    centred = each - shares @ each
    assert (location(on_axis(found)).table == centred / np.sqrt(float(shares @ centred**2))).all()


def test_scores_by_tail_vary_by_more_where_all_are_slower() -> None:
    random = np.random.default_rng(2)
    usual = on_axis(np.bincount(np.clip(100 + 0.35 / np.log(BASE) * random.normal(size=200_000), 0, 199).astype(int)))
    scores, slower = tail(usual), 1.0 + 0.05 * np.arange(7)
    found = scores.variance_after(tuple(slower))
    assert found[0] == pytest.approx(1.0, abs=0.01) and (np.diff(found) > 0).all() and found[5] > 2.5
    moved = np.interp(np.arange(AXIS_LENGTH) + np.log(1.25) / np.log(BASE), np.arange(AXIS_LENGTH), scores.table)
    drawn = moved[random.choice(AXIS_LENGTH, size=200_000, p=scores.shares)]
    assert found[5] == pytest.approx(drawn.var(), rel=0.03)
