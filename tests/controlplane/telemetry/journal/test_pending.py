"""A pending row reads as it was written, or not at all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.journal import pending
from controlplane.telemetry.journal.pending import Damaged
from controlplane.telemetry.values.columns import Columns, HistogramRows, NumberRows
from tests.controlplane.telemetry.same_columns import assert_same

FINITE = st.floats(allow_nan=False, allow_infinity=False)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**63 - 1)


@st.composite
def numbers(draw: st.DrawFn) -> NumberRows:
    n = draw(st.integers(0, 4))
    ints, ids = st.lists(INT64, min_size=n, max_size=n), st.lists(INT32, min_size=n, max_size=n)
    return NumberRows(
        np.array(draw(ints), np.int64),
        np.array(draw(ids), np.int32),
        np.array(draw(ids), np.int32),
        np.array(draw(st.lists(FINITE, min_size=n, max_size=n)), np.float64),
        np.array(draw(ints), np.int64),
    )


@st.composite
def histograms(draw: st.DrawFn) -> HistogramRows:
    n = draw(st.integers(0, 4))
    ints, ids = st.lists(INT64, min_size=n, max_size=n), st.lists(INT32, min_size=n, max_size=n)
    floats = st.lists(FINITE, min_size=n, max_size=n)
    width = np.array(draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)), np.int32)
    cells = int(width.sum())
    size = draw(st.sampled_from([1, 2, 4, 8]))
    values = draw(st.lists(st.integers(0, 256**size - 1), min_size=cells, max_size=cells))
    return HistogramRows(
        np.array(draw(ints), np.int64),
        np.array(draw(ids), np.int32),
        np.array(draw(ids), np.int32),
        np.array(draw(ids), np.int32),
        width,
        np.array(values, f"u{size}"),
        np.array(draw(ints), np.int64),
        *(np.array(draw(floats), np.float64) for _ in range(4)),
    )


COLUMNS = st.builds(Columns, histograms(), numbers(), numbers())


@given(COLUMNS)
def test_there_and_back(columns: Columns) -> None:
    assert_same(pending.decode(pending.encode(columns)), columns)


@given(COLUMNS, st.data())
def test_any_byte_that_changes_is_noticed(columns: Columns, data: st.DataObject) -> None:
    row = bytearray(pending.encode(columns))
    row[data.draw(st.integers(0, len(row) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Damaged):
        pending.decode(bytes(row))


@given(COLUMNS, st.data())
def test_a_row_that_is_cut_off_is_noticed(columns: Columns, data: st.DataObject) -> None:
    row = pending.encode(columns)
    with pytest.raises(Damaged):
        pending.decode(row[: data.draw(st.integers(0, len(row) - 1))])
