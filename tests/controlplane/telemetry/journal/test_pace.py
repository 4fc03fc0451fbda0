"""Retry-After says when what waits now will be done."""

import pytest

from controlplane.telemetry.journal.pace import LEAST_S, MOST_S, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_wait_follows_the_pace() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.wait_s(1000) == LEAST_S  # Nothing is known yet.
    for _ in range(100):
        clock.now += 0.02
        pace.done()
    assert pace.wait_s(500) == pytest.approx(10.0)
    assert pace.wait_s(1) == LEAST_S and pace.wait_s(10**6) == MOST_S
    for _ in range(400):  # Twice as fast: soon believed.
        clock.now += 0.01
        pace.done()
    known = pace.wait_s(500)
    assert 5.0 < known < 6.0
    clock.now += 3600.0  # A night without reports says nothing of how fast they are worked off.
    pace.done()
    assert pace.wait_s(500) == known
