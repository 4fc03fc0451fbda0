"""When a revision came and left, from shares that are noisy, small, or cut off."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.diagnosis.arrival import Arrival, Served, arrivals, share

START = datetime(2030, 1, 1, 8, 44, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def served(*own: int, total: int = 30) -> list[Served]:
    return [Served(at(5 * place), count, total) for place, count in enumerate(own)]


def test_a_whole_pool_at_once() -> None:
    assert arrivals(served(0, 0, 0, 20, 30, 30)) == [Arrival(at(15), at(15), at(20))]


def test_a_canary_that_was_rolled_back_and_a_later_rollout_are_two_arrivals() -> None:
    first, second = arrivals(served(0, 15, 15, 15, 0, 0, 0, 0, 30, 30, 30))
    assert (first.began, first.whole_at, first.ended) == (at(5), None, at(20))
    assert (second.began, second.half_at, second.whole_at, second.ended) == (at(40), at(40), at(40), None)


def test_waves() -> None:
    assert arrivals(served(0, 8, 8, 8, 16, 16, 24, 24, 30, 30, 30)) == [Arrival(at(5), at(20), at(40))]


def test_a_revision_that_was_always_there_never_arrived() -> None:
    (only,) = arrivals(served(30, 30, 30, 30))
    assert only.milestones == []


def test_what_had_half_from_the_start_can_still_reach_all() -> None:
    (only,) = arrivals(served(18, 18, 18, 30, 30, 30))
    assert (only.began, only.half_at, only.whole_at) == (None, None, at(15))


def test_a_share_below_what_counts_is_no_arrival() -> None:
    assert arrivals(served(0, 1, 1, 1, 1)) == []


def test_a_canary_of_a_small_pool_does_not_leave_with_each_quiet_window() -> None:
    (only,) = arrivals(served(0, 1, 0, 0, 1, 0, 1, 0, 0, total=3))
    assert (only.began, only.ended, only.half_at) == (at(5), None, None)


def test_leaving_takes_windows_and_requests() -> None:
    for gone, left in (((0, 0), False), ((0, 0, 0), True)):
        assert (arrivals(served(0, 30, 30, *gone))[0].ended is not None) is left
    assert arrivals(served(0, 3, 3, *[0] * 6, total=3))[0].ended is None  # 18 requests say too little
    assert arrivals(served(0, 3, 3, *[0] * 7, total=3))[0].ended == at(15)


def test_one_window_of_a_small_pool_is_not_all_of_it() -> None:
    (only,) = arrivals(served(0, 2, 0, 0, 1, 0, 0, total=2))
    assert only.whole_at is None and only.half_at is None


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(40, 60))
def test_milestones_lie_in_their_own_stay_and_stays_do_not_overlap(own: list[int], total: int) -> None:
    windows = served(*own, total=total)
    found = arrivals(windows)
    for arrival in found:
        known = [*arrival.milestones, arrival.ended or at(1e6)]
        assert known == sorted(known)
        if arrival.began is not None:
            assert share([window for window in windows if window.start == arrival.began]) >= 0.05
    for earlier, later in pairwise(found):
        assert earlier.ended is not None and later.began is not None and earlier.ended <= later.began


@pytest.mark.parametrize(("windows", "expected"), [([], 0.0), (served(3, 0), 0.05), (served(30), 1.0)])
def test_share(windows: list[Served], expected: float) -> None:
    assert share(windows) == expected
