"""Windows as they would have been after an accepted change: counts stay exact, an unmeasured change leaves nothing."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.material import Tail
from controlplane.alerts.windows.moved_windows import moved, shifted
from controlplane.alerts.windows.pool_record import Move
from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.evidence.sketch import Sketch


def tail(places: list[int]) -> Tail:
    return Tail.of(Sketch(counts=np.bincount(places, minlength=AXIS_LENGTH)))


def window(start_s: float, places: list[int]) -> Window:
    return Window(start_s, 1.0, {"ttft": {"<=512": tail(places)}, "itl": {"": tail([5])}})


@given(
    st.lists(st.integers(200, 700), min_size=1, max_size=20), st.integers(-100, 100), st.integers(0, AXIS_LENGTH - 1)
)
def test_a_shift_keeps_every_count(places: list[int], by: int, position: int) -> None:
    assert shifted(tail(places), by).above(position) == sum(place + by > position for place in places)


@given(st.lists(st.integers(0, AXIS_LENGTH - 1), min_size=1, max_size=20), st.integers(-2000, 2000))
def test_a_shift_stays_on_the_axis(places: list[int], by: int) -> None:
    counts = np.zeros(AXIS_LENGTH, dtype=np.int64)
    shifted(tail(places), by).add_to(counts)
    assert counts.sum() == len(places)


def test_windows_move_by_all_that_came_after_them() -> None:
    windows = [window(start_s, [300]) for start_s in (0.0, 10.0, 20.0)]
    moves = [Move(1, 10.0, {0.95: 7, 0.99: 9}), Move(2, 20.0, {0.95: -3, 0.99: -2})]
    found = moved(windows, "ttft", 0.95, moves)
    assert [one.tails["ttft"]["<=512"].low for one in found] == [304, 297, 300]
    assert [one.tails["ttft"]["<=512"].low for one in moved(windows, "ttft", 0.99, moves)] == [307, 298, 300]
    assert found[2] is windows[2]


def test_before_a_change_that_nobody_measured_nothing_is_known() -> None:
    windows = [window(start_s, [300]) for start_s in (0.0, 10.0, 20.0)]
    found = moved(windows, "ttft", 0.95, [Move(1, 5.0, {0.95: 7}), Move(2, 15.0, None)])
    assert found == [windows[2]]
