"""An interval holds what its runs differ by and what earlier ones were off by, as two things that are apart."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.twin.answer.forecast_interval import TIMES, interval, of_metric

seconds = st.lists(st.floats(1e-3, 10), min_size=1, max_size=8)


def test_runs_that_agree_are_as_far_off_as_earlier_ones_and_exact_ones_as_far_as_their_runs() -> None:
    assert interval([2.0, 2.0], [0.1, -0.1]) == pytest.approx((2.0 / 1.1**TIMES, 2.0, 2.0 * 1.1**TIMES))
    assert interval([1.0, 2.0, 3.0], [0.0, 0.0]) == pytest.approx((1.0, 2.0, 3.0))
    assert interval([1.0, 2.0, 3.0], []) == pytest.approx((1.0, 2.0, 3.0))


def test_both_together_are_less_than_their_sum_and_one_lucky_error_does_not_narrow_it() -> None:
    low, _, high = interval([1.0, 2.0, 4.0], [0.4])
    assert 4.0 * 1.4**TIMES > high > 4.0 and high == pytest.approx(4.0 / low)
    assert interval([2.0], [0.0, 0.1])[2] == pytest.approx(2.0 * math.exp(TIMES * math.log(1.1) / math.sqrt(2)))


@given(seconds, st.lists(st.floats(-0.9, 3), max_size=3))
def test_all_runs_lie_within(values: list[float], errors: list[float]) -> None:
    low, middle, high = interval(values, errors)
    assert low <= min(values) * (1 + 1e-9) and max(values) <= high * (1 + 1e-9) and low <= middle <= high


def test_a_metrics_errors_are_those_of_its_quantiles() -> None:
    assert of_metric({"ttft:0.5": 0.1, "tpot:0.5": 0.2, "ttft:0.99": 0.3}, "ttft") == [0.1, 0.3]
