"""A table of sketches answers as each of its sketches does, to the bit."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.values.sketch_table import SketchTable

COUNTS = st.one_of(st.integers(0, 3), st.integers(0, 2**40))
EXTREMES = st.one_of(st.just(math.inf), st.floats(0.0, 2000.0))
Q = st.one_of(st.sampled_from([0.0, 0.5, 0.95, 0.99, 1.0]), st.floats(0.0, 1.0))


@st.composite
def tables(draw: st.DrawFn) -> SketchTable:
    """Rows that are not empty, on any part of the axis, none of it included."""
    width = draw(st.integers(0, 12))
    low = draw(st.integers(0, AXIS_LENGTH - width))
    rows = draw(
        st.lists(
            st.tuples(st.lists(COUNTS, min_size=width, max_size=width), COUNTS, EXTREMES, EXTREMES).filter(
                lambda row: sum(row[0]) + row[1] > 0
            ),
            min_size=1,
            max_size=5,
        )
    )
    n = len(rows)
    return SketchTable(
        low,
        np.array([row[0] for row in rows], np.int64).reshape(n, width),
        np.array([row[1] for row in rows], np.int64),
        np.arange(n, dtype=float),
        np.array([row[2] for row in rows]),
        np.array([-row[3] if row[3] == math.inf else row[3] for row in rows]),
        np.full(n, RELATIVE_ERROR),
    )


@settings(max_examples=300, deadline=None)
@given(tables(), st.lists(Q, min_size=1, max_size=4))
def test_quantiles_are_those_of_each_sketch(table: SketchTable, wanted: list[float]) -> None:
    sketches = table.sketches()
    assert table.quantiles(wanted) == [sketch.quantiles(wanted) for sketch in sketches]
    assert table.count().tolist() == [sketch.count for sketch in sketches]


@settings(deadline=None)
@given(tables(), st.data())
def test_rows_are_taken_as_they_are(table: SketchTable, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(table) - 1), max_size=6))
    whole, taken = table.sketches(), table.take(rows).sketches()
    assert [one.counts.tolist() for one in taken] == [whole[row].counts.tolist() for row in rows]
    assert [one.total for one in taken] == [whole[row].total for row in rows]


def test_an_empty_row_has_no_quantile() -> None:
    ints, floats = np.array([1, 0]), np.zeros(2)
    table = SketchTable(0, np.zeros((2, 3), np.int64), ints, floats, floats, floats, floats)
    with pytest.raises(ValueError, match="no values"):
        table.quantiles([0.5])
    with pytest.raises(ValueError, match="no values"):
        table.sketches()[1].quantiles([0.5])


def test_a_rank_lies_within_0_and_1() -> None:
    with pytest.raises(ValueError, match="within 0 and 1"):
        SketchTable.empty().quantiles([1.5])


def test_no_rows_have_no_quantiles() -> None:
    assert SketchTable.empty().quantiles([0.5]) == [] and SketchTable.empty().sketches() == []


@pytest.mark.parametrize("zero", [0, 2**60])
def test_more_values_than_a_float_tells_apart(zero: int) -> None:
    """Their last rank is rounded to one that there is not."""
    sketch = Sketch(zero_count=zero, minimum=0.0, maximum=1.0)
    sketch.counts[600] = 2**60 + 1
    table = SketchTable(
        600,
        np.array([[2**60 + 1]]),
        np.array([zero]),
        np.zeros(1),
        np.zeros(1),
        np.ones(1),
        np.full(1, RELATIVE_ERROR),
    )
    assert table.quantiles([1.0]) == [sketch.quantiles([1.0])]
    assert Sketch(zero_count=2**60 + 1, minimum=0.0).quantile(1.0) == 0.0
