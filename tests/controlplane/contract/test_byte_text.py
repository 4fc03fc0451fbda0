"""Amounts of memory in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.byte_text import byte_text

FACTORS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (256 * 2**20, "256 MiB"), (10 * 2**30, "10.0 GiB")],
)
def test_three_digits_and_a_unit(amount: int, words: str) -> None:
    assert byte_text(amount) == words


@given(st.integers(min_value=0, max_value=2**53))
def test_the_words_are_near_the_amount(amount: int) -> None:
    number, unit = byte_text(amount).split()
    assert float(number) * FACTORS[unit] == pytest.approx(amount, rel=6e-3)
