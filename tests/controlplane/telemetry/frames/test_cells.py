"""Counts as planes of digits: exact at any size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.frames import cells


@given(st.integers(0, 64), st.integers(0, 5), st.integers(0, 9), st.data())
def test_they_round_trip(bits: int, rows: int, width: int, data: st.DataObject) -> None:
    most = 2**bits - 1
    values = data.draw(st.lists(st.integers(0, most), min_size=rows * width, max_size=rows * width))
    counts = np.array(values, np.uint64).reshape(rows, width)
    digits = cells.digits_of(counts)
    packed = cells.pack(counts, digits)
    assert len(packed) == cells.size_of(digits, rows, width)
    np.testing.assert_array_equal(cells.unpack(memoryview(packed), digits, rows, width), counts)


def test_small_counts_take_half_a_byte() -> None:
    assert cells.digits_of(np.array([[15]], np.uint8)) == 1 and cells.digits_of(np.array([[16]], np.uint8)) == 2
    assert cells.size_of(1, 10, 80) == 400
    assert cells.unpack(memoryview(cells.pack(np.array([[7]], np.uint64), 1)), 1, 1, 1).dtype == np.uint8


def test_another_size_is_refused() -> None:
    with pytest.raises(ValueError):
        cells.unpack(memoryview(b"123"), 1, 2, 4)
