"""When a run is lost, and when it grows: on runs made by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tuner_measures.growing_runs import Run, slope_z

AT = np.arange(60.0)


def run(ttft_s: np.ndarray) -> Run:
    return Run(AT, ttft_s, AT + ttft_s + 1.0, 10)


def test_a_run_is_lost_when_the_last_request_that_it_wants_has_waited_for_too_long() -> None:
    """Of 50 values four have to be above the bound: the fourth late one comes at 43 s."""
    late = np.where((AT >= 40) & (AT < 45), 9.0, 0.5)
    assert run(late).lost_at(2.0) == 43.0 + 2.0 and run(late).p95() > 2.0
    few = np.where((AT >= 40) & (AT < 42), 9.0, 0.5)
    assert run(few).lost_at(2.0) == run(few).whole_s and run(few).p95() <= 2.0


def test_a_run_whose_queue_and_waits_rise_has_grown_and_a_steady_one_has_not() -> None:
    growing, steady = run(0.3 * AT), run(np.full(60, 3.0))
    assert 30 <= growing.grew_at(2.5) < 60 and steady.grew_at(0.5) == steady.whole_s


@given(st.lists(st.integers(0, 5), min_size=3, max_size=30))
def test_a_slope_turned_round_is_as_far_below_zero(values: list[int]) -> None:
    series = np.array(values, dtype=float)
    assert slope_z(series) == pytest.approx(-slope_z(series[::-1]))
    assert slope_z(np.arange(30.0)) > 7 > 3 > abs(slope_z(np.tile([1.0, 2.0], 15)))
