"""Durations in words: one unit that fits, three digits, and never far from the number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.duration_text import duration_text

SIZES = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 µs"),
        (0.0000123, "12.3 µs"),
        (0.01, "10 ms"),
        (0.0123, "12.3 ms"),
        (0.33, "330 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (1.6458, "1.65 s"),
        (71.5, "71.5 s"),
        (99.96, "100.0 s"),
        (250, "250 s"),
        (-0.5, "-500 ms"),
    ],
)
def test_a_duration_has_a_fitting_unit(value: float, text: str) -> None:
    assert duration_text(value) == text


@given(st.floats(min_value=1e-6, max_value=1e5))
def test_a_duration_is_read_as_what_it_was(value: float) -> None:
    number, _, unit = duration_text(value).partition(" ")
    assert float(number) * SIZES[unit] == pytest.approx(value, rel=0.0051)
    assert float(number) >= 1 and (unit == "s" or float(number) < 1000)
