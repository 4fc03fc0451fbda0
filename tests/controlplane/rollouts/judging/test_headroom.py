"""Whether there is room in the arms, and whether the canary has lost its cache hits."""

import numpy as np
import pytest

from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.headroom import LOST_HITS, OVERLOADED, Room


def arm(requests: int, total_s: float, hits: int = 0) -> dict[str, Sketch]:
    return {
        "<=2k miss": Sketch(zero_count=requests - hits, total=total_s),
        "<=2k hit": Sketch(zero_count=hits),
    }


def tick(control_wait: float, canary_wait: float, *, control_hits: int = 8, canary_hits: int = 8) -> dict[str, Window]:
    """Twenty requests of a second's prefill in all; waits: in seconds of all of them."""
    return {
        "queue": Window(arm(20, control_wait), arm(20, canary_wait)),
        "prefill": Window(arm(20, 1.0, control_hits), arm(20, 1.0, canary_hits)),
    }


@pytest.mark.parametrize(
    ("control", "canary", "room"),
    [(0.5, 0.5, True), (OVERLOADED, 0.5, True), (0.5, OVERLOADED, True), (OVERLOADED, OVERLOADED, False)],
)
def test_waiting_is_compared_where_one_arm_has_room(control: float, canary: float, room: bool) -> None:
    found = Room()
    assert found.feed(tick(control, canary)) is room
    assert found.overloaded is not room
    assert bool(found.holds_back()) is not room


def test_an_overload_that_has_gone_is_forgotten_after_a_minute_unless_it_was_most_of_the_time() -> None:
    for full, free, said in ((4, 20, False), (20, 13, True), (20, 30, False)):
        found = Room()
        for _ in range(full):
            found.feed(tick(12.0, 12.0))
        for _ in range(free):
            found.feed(tick(0.1, 0.1))
        assert found.overloaded is said


def test_hits_that_the_canary_lost_hold_a_good_verdict_back_until_they_are_there_again() -> None:
    found = Room()
    found.learn([tick(0.1, 0.1) for _ in range(10)])
    assert not any(found.feed(tick(0.1, 0.1, canary_hits=2)) for _ in range(12))
    assert found.lost_hits == pytest.approx(0.3)
    (why,) = found.holds_back()
    assert "30 %" in why
    for _ in range(12):
        found.feed(tick(0.1, 0.1))
    assert found.holds_back() == []


def test_a_node_that_always_had_fewer_hits_has_lost_none() -> None:
    found = Room()
    found.learn([tick(0.1, 0.1, canary_hits=2) for _ in range(10)])
    assert found.hits_apart == pytest.approx(-0.3)
    for _ in range(12):
        found.feed(tick(0.1, 0.1, canary_hits=2))
    assert found.lost_hits < LOST_HITS and not found.holds_back()


def test_senders_that_tell_nothing_hold_nothing_back() -> None:
    found = Room()
    found.learn([])
    assert all(found.feed({}) for _ in range(20))
    assert not found.holds_back()
    assert Room.model_validate_json(found.model_dump_json()) == found
    assert np.isfinite(found.lost_hits)
