"""The bucket axis: every value lies in its bucket; quantiles are within the stated error."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.histogram import (
    AXIS_LENGTH,
    AXIS_MIN,
    BASE,
    RELATIVE_ERROR,
    ZERO_THRESHOLD_S,
    axis_position,
    bucket_index,
    quantile,
    upper_edge,
)


@given(st.floats(min_value=1.1 * ZERO_THRESHOLD_S, max_value=1000.0))
def test_a_value_lies_in_its_bucket(value: float) -> None:
    index = bucket_index(value)
    assert BASE**index * (1 - 1e-9) < value <= BASE ** (index + 1) * (1 + 1e-9)
    assert 0 <= axis_position(value) < AXIS_LENGTH
    assert value <= upper_edge(axis_position(value)) * (1 + 1e-9)


@pytest.mark.parametrize("exponent", range(-19, 10))
def test_powers_of_two_belong_to_the_bucket_below(exponent: int) -> None:
    assert bucket_index(2.0**exponent) == exponent * 32 - 1


def test_values_beyond_the_axis_are_clamped_to_its_ends() -> None:
    assert axis_position(1e-9) == axis_position(0.0) == 0
    assert axis_position(1e9) == AXIS_LENGTH - 1


@pytest.mark.parametrize("q", [0.0, 0.5, 0.95, 0.99, 1.0])
def test_quantile_is_within_the_stated_error(q: float) -> None:
    values = sorted(random.Random(7).lognormvariate(-2, 1) for _ in range(5000))
    counts = [0] * AXIS_LENGTH
    for value in values:
        counts[axis_position(value)] += 1
    exact = values[round(q * (len(values) - 1))]
    assert quantile(counts, q, minimum=values[0], maximum=values[-1]) == pytest.approx(exact, rel=RELATIVE_ERROR)


def test_quantile_refuses_what_has_no_answer() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([0] * AXIS_LENGTH, 0.5)
    with pytest.raises(ValueError, match="q must"):
        quantile([1], 1.5)
    assert math.isclose(upper_edge(0), BASE ** (AXIS_MIN + 1))
