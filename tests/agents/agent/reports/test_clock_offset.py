"""The true offset of two clocks lies within the error that is told with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.agent.reports.clock_offset import KEPT_S, ClockOffset

trips = st.lists(st.tuples(st.integers(0, 5 * 10**9), st.floats(0, 1)), min_size=1, max_size=8)


@given(st.integers(-(10**12), 10**12), trips)
def test_the_true_offset_lies_within_the_error(offset_ns: int, trips: list[tuple[int, float]]) -> None:
    """However the time of a trip is split between the way there, the service, and the way back."""
    clock = ClockOffset()
    sent_ns = 1_700_000_000_000_000_000
    for took_ns, share in trips:
        clock.measure(sent_ns, sent_ns + took_ns, sent_ns + round(share * took_ns) + offset_ns, at_s=0.0)
        sent_ns += took_ns
    found = clock.best(1.0)
    assert found is not None
    assert abs(found.offset_s - offset_ns / 1e9) <= found.error_s + 1e-6
    assert found.error_s == min(took_ns for took_ns, _ in trips) / 2e9


def test_an_old_reading_is_not_told() -> None:
    clock = ClockOffset()
    assert clock.best(0.0) is None
    clock.measure(0, 1000, 500, at_s=10.0)
    clock.measure(0, 9000, 500, at_s=20.0)
    for now_s, error_s in ((10.0 + KEPT_S, 5e-7), (10.1 + KEPT_S, 4.5e-6)):
        found = clock.best(now_s)
        assert found is not None and found.error_s == pytest.approx(error_s)
    assert clock.best(20.1 + KEPT_S) is None
