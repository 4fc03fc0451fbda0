"""Of any minute at most so many, for each key by itself."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.fleet.enrolling.minute_pace import MINUTE_S, Pace


@given(steps=st.lists(st.floats(0, 30), min_size=1, max_size=60), most=st.integers(1, 5))
def test_no_minute_holds_more_than_are_allowed(steps: list[float], most: int) -> None:
    now = 1000.0
    pace, allowed = Pace(most, lambda: now), []
    for step in steps:
        now += step
        wait_s = pace.wait_s("a")
        assert 0 <= wait_s <= MINUTE_S
        if wait_s == 0:
            allowed.append(now)
        recent = [at for at in allowed if now - at < MINUTE_S]
        assert len(recent) <= most
        assert wait_s == 0 or len(recent) == most, "it was refused while there was room"
    assert pace.left_out == len(steps) - len(allowed)


def test_who_waits_as_told_is_let_in_and_others_are_not_held_up() -> None:
    now = 0.0
    pace = Pace(2, lambda: now)
    assert pace.allows("a") and pace.allows("a")
    wait_s = pace.wait_s("a")
    assert wait_s == MINUTE_S and pace.allows("b")
    now += wait_s
    assert pace.allows("a") and pace.left_out == 1
