"""RowBinary: whatever goes in comes out, and what is cut off is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.frames import row_binary

TYPES = ("UInt16", "Int32", "Int64", "UInt64", "String")
ROWS = st.tuples(
    st.integers(0, 2**16 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=400),
)


@given(st.lists(ROWS, max_size=5))
def test_rows_come_back(rows: list[tuple[int, int, int, int, bytes]]) -> None:
    assert list(row_binary.decode(row_binary.encode(rows, TYPES), TYPES)) == rows


@given(st.lists(ROWS, min_size=1, max_size=2), st.data())
def test_a_row_that_is_cut_off_is_refused(rows: list[tuple[int, int, int, int, bytes]], data: st.DataObject) -> None:
    encoded = row_binary.encode(rows, TYPES)
    last = len(row_binary.encode(rows[-1:], TYPES))
    cut = data.draw(st.integers(1, last - 1))
    with pytest.raises(ValueError, match="cut off"):
        list(row_binary.decode(encoded[: len(encoded) - cut], TYPES))


def test_a_long_text_has_a_length_of_several_bytes() -> None:
    encoded = row_binary.encode([(b"x" * 300,)], ("String",))
    assert encoded[:2] == bytes([0x80 | (300 & 0x7F), 300 >> 7])
