"""The history of an interval is bounded, in order, keeps both its ends, and has no wide gaps."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.rollouts.judging.interval_history import MOST, Moment, with_newest

bounds = st.integers(3, 12)


def moment(after_s: float, ratio: float = 1.0) -> Moment:
    return Moment(after_s=after_s, ratio=ratio, low=None, high=ratio + 0.1)


def kept(times: list[float], most: int) -> list[float]:
    history: list[Moment] = []
    for after_s in times:
        history = with_newest(history, moment(after_s), most)
        assert len(history) <= most
    return [one.after_s for one in history]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=120), bounds)
def test_bounded_in_order_with_both_ends_and_no_wide_gap(steps: list[int], most: int) -> None:
    times = [float(sum(steps[: place + 1])) for place in range(len(steps))]
    found = kept(times, most)
    assert found == sorted(set(found)) and set(found) <= set(times)
    assert found[0] == times[0] and found[-1] == times[-1]
    assert len(found) == min(len(times), most)
    allowed = max(max(steps), 2 * (times[-1] - times[0]) / (most - 1))
    assert all(after - before <= allowed for before, after in pairwise(found))


def test_a_look_at_the_same_time_replaces_the_last_one() -> None:
    history = with_newest(with_newest([], moment(5.0, 1.2)), moment(5.0, 1.1))
    assert history == [moment(5.0, 1.1)]


@pytest.mark.parametrize("hours", [1, 8])
def test_a_long_judging_keeps_as_many_moments_as_a_drawing_shows(hours: int) -> None:
    times = [5.0 * tick for tick in range(1, hours * 720 + 1)]
    found = kept(times, MOST)
    assert len(found) == MOST and found[-1] == times[-1]
