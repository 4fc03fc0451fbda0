"""Moments of logarithms are those of the requests; a stray one speaks for no node."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.windows.node_levels import REACH_BUCKETS, NodeLevels
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, BASE, axis_position

KEYS = (("a", "<=512"), ("b", "<=512"), ("b", "<=2k"))


def levels(*seconds: list[float]) -> NodeLevels:
    """Of so many keys the latencies of each."""
    counts = np.array(
        [np.bincount([axis_position(one) for one in values] or [0], minlength=AXIS_LENGTH) for values in seconds]
    )
    for row, values in enumerate(seconds):
        counts[row] *= bool(values)
    return NodeLevels.of(KEYS[: len(seconds)], 0, counts)


@given(st.lists(st.floats(0.05, 0.3), min_size=1, max_size=40), st.lists(st.floats(0.05, 0.3), max_size=40))
def test_moments_are_those_of_the_requests(first: list[float], second: list[float]) -> None:
    found = levels(first, second).figures
    for row, values in enumerate((first, second)):
        logs = np.log(values)
        assert found[0, row] == len(values)
        assert found[1, row] == pytest.approx(logs.sum(), abs=0.5 * math.log(BASE) * max(len(values), 1) + 1e-9)
        assert found[2, row] >= 0.0


def test_a_stray_request_counts_as_eight_times_the_middle() -> None:
    usual = [0.1] * 9
    _, stray = levels(usual, [100.0]).figures[1], levels([0.1] * 9, [100.0]).figures[1, 1]
    middle = (axis_position(0.1) + AXIS_MIN + 0.5) * math.log(BASE)
    assert stray == pytest.approx(middle + REACH_BUCKETS * math.log(BASE))
    assert stray == pytest.approx(math.log(0.8), abs=0.05)


def test_another_prompt_bucket_has_its_own_middle() -> None:
    found = levels([0.1] * 9, [0.1], [30.0] * 3).figures
    assert found[1, 2] / 3 == pytest.approx(math.log(30.0), abs=math.log(BASE))


def test_windows_of_the_same_nodes_share_their_keys() -> None:
    assert levels([0.1], [0.2]).keys is levels([0.3], [0.4]).keys


def test_nothing_on_the_axis_is_nothing() -> None:
    assert not NodeLevels.of(KEYS, 0, np.zeros((3, 0), dtype=np.int64)).figures.any()
