"""Extremes as codes: rounded outward, by no more than is said, and only once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.values import extremes

PRECISION = 3.4e-7
POSITIVE = st.floats(1e-280, 1e280)
ANY = st.floats(allow_nan=False)


@given(st.lists(POSITIVE, min_size=1, max_size=8))
def test_they_are_rounded_outward_a_little(values: list[float]) -> None:
    given_values = np.array(values)
    minimum, maximum = extremes.rounded(given_values, given_values)
    assert (minimum <= given_values).all() and (maximum >= given_values).all()
    assert (minimum >= given_values * (1 - PRECISION)).all() and (maximum <= given_values * (1 + PRECISION)).all()


@given(st.lists(ANY, min_size=1, max_size=8), st.lists(ANY, min_size=1, max_size=8))
def test_rounding_again_changes_nothing(least: list[float], most: list[float]) -> None:
    n = min(len(least), len(most))
    once = extremes.rounded(np.array(least[:n]), np.array(most[:n]))
    again = extremes.rounded(*once)
    assert [column.tobytes() for column in again] == [column.tobytes() for column in once]


@given(st.lists(st.sampled_from([0.0, -0.0, np.inf, -np.inf, -1.5, 5e-324, 1.7e308]), min_size=1, max_size=6))
def test_what_has_no_logarithm_is_exact(values: list[float]) -> None:
    given_values = np.array(values)
    minimum, maximum = extremes.rounded(given_values, given_values)
    assert minimum.tobytes() == maximum.tobytes() == given_values.tobytes()


def test_a_bucket_takes_two_bytes() -> None:
    assert extremes.edge(8) - extremes.edge(7) == 1 << 16
