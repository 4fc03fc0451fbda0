"""The numpy sketch agrees with the contract's plain one, and merging adds nothing to the error."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract import histogram
from controlplane.contract.histogram import RELATIVE_ERROR, axis_position
from controlplane.evidence.sketch import Sketch

VALUES = st.lists(st.floats(2e-6, 900.0), min_size=1, max_size=60)
Q = st.floats(0.0, 1.0)


def sketch_of(values: list[float]) -> Sketch:
    found = Sketch()
    for value in values:
        found.counts[axis_position(value)] += 1
    found.total, found.minimum, found.maximum = math.fsum(values), min(values), max(values)
    return found


@given(VALUES, Q)
def test_it_agrees_with_the_contract(values: list[float], q: float) -> None:
    sketch = sketch_of(values)
    expected = histogram.quantile(sketch.counts.tolist(), q, minimum=sketch.minimum, maximum=sketch.maximum)
    assert sketch.quantile(q) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=60)
@given(VALUES, VALUES, st.integers(0, 20))
def test_merging_is_as_good_as_one_sketch(first: list[float], second: list[float], k: int) -> None:
    merged = sketch_of(first)
    merged.merge(sketch_of(second))
    whole = sketch_of(first + second)
    assert merged.counts.tolist() == whole.counts.tolist() and merged.maximum == whole.maximum
    values = np.sort(np.array(first + second))
    q = k / 20
    rank = q * (len(values) - 1)
    # Between two ranks any value of their gap is right; the sketch may take either side's bucket.
    lower, upper = values[math.floor(rank)], values[math.ceil(rank)]
    estimate = merged.quantile(q)
    assert lower / (1 + RELATIVE_ERROR) <= estimate * (1 + 1e-9) and estimate <= upper * (1 + RELATIVE_ERROR) * (
        1 + 1e-9
    )
