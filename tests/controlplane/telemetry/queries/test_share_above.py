"""Counts above a threshold: exact at the edge that is named, and bounded where a sender's buckets were wide."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import BASE, ZERO_THRESHOLD_S, upper_edge
from controlplane.telemetry.queries.share_above import LAST_EDGE, above, nearest_edge, threshold
from tests.controlplane.telemetry.fake_reader import sketch_of

durations = st.floats(ZERO_THRESHOLD_S, upper_edge(LAST_EDGE), allow_nan=False)


@given(durations)
def test_the_edge_is_the_nearest(seconds: float) -> None:
    position = nearest_edge(seconds, "above")
    assert -1 <= position <= LAST_EDGE
    assert abs(math.log(upper_edge(position) / seconds)) <= 0.5 * math.log(BASE) + 1e-9


@given(st.lists(durations, min_size=1, max_size=50), durations)
def test_counts_above_the_edge_are_exact(values: list[float], seconds: float) -> None:
    position = nearest_edge(seconds, "above")
    edge = threshold("ttft", seconds, position).edge
    # Floating point decides for a value on the very edge; everything else is exact.
    clear = [value for value in values if abs(value / edge - 1) > 1e-12]
    if not clear:
        return
    found = above(sketch_of(clear), position)
    assert (found.count, found.above, found.error) == (len(clear), sum(value > edge for value in clear), 0.0)
    assert found.share == found.above / found.count


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=50), st.floats(0.02, 5.0), st.floats(0.1, 9.0))
def test_wide_buckets_are_within_the_error_stated(values: list[float], seconds: float, width: float) -> None:
    # A sender whose buckets are (1 + width) wide: each value is somewhere in its bucket, and put at its end.
    step = math.log(1.0 + width)
    blurred = [math.exp(math.ceil(math.log(value) / step) * step) for value in values]
    position = nearest_edge(seconds, "above")
    edge = upper_edge(position)
    found = above(sketch_of(blurred, relative_error=width), position)
    truly = sum(value > edge for value in values) / len(values)
    assert abs(found.share - truly) <= found.error + 1e-12


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1023.9, 2000.0, math.nan, math.inf])
def test_thresholds_off_the_axis_are_refused(seconds: float) -> None:
    with pytest.raises(BadRequest) as raised:
        nearest_edge(seconds, "above")
    assert raised.value.detail["field"] == "above"


def test_values_too_small_for_the_axis_are_below_every_threshold() -> None:
    sketch = sketch_of([0.0, 0.0, 1.0])
    assert above(sketch, -1).above == 1 and above(sketch, -1).count == 3
    assert int(np.sum(sketch.counts)) == 1
