"""A storm of agents: all are let in, each after few tries, in about the time that serving them takes."""

import heapq
import random
from collections import deque

import pytest

from controlplane.fleet.opamp.turnstile import (
    _SPAN_S,
    _SPANS,
    FIRST_A_SECOND,
    LATEST_S,
    SOONEST_S,
    WAITED_S,
    Place,
    Turnstile,
)


def place(turnstile: Turnstile) -> Place:
    found = turnstile.come()
    assert isinstance(found, Place)
    return found


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_who_comes_while_there_is_room_is_let_in_and_leaves_once() -> None:
    turnstile = Turnstile(Clock(), most=2, waiting=0)
    first, second = place(turnstile), place(turnstile)
    assert first.reached.is_set() and second.reached.is_set()
    assert isinstance(turnstile.come(), float)
    first.leave()
    first.leave()
    assert place(turnstile).reached.is_set() and isinstance(turnstile.come(), float)


def test_who_waits_is_let_in_by_turns_and_may_leave_before() -> None:
    turnstile = Turnstile(Clock(), most=1, waiting=3)
    inside, *others = (place(turnstile) for _ in range(4))
    assert [one.reached.is_set() for one in (inside, *others)] == [True, False, False, False]
    assert isinstance(turnstile.come(), float) and turnstile.waiting == 3
    others[0].leave()
    inside.leave()
    assert [one.reached.is_set() for one in others] == [False, True, False]
    last = place(turnstile)
    others[0].leave()
    others[1].leave()
    assert others[2].reached.is_set() and not last.reached.is_set()
    others[2].leave()
    last.leave()
    assert turnstile.waiting == 0 and place(turnstile).reached.is_set()


def test_nobody_waits_for_longer_than_is_waited_for_an_answer() -> None:
    turnstile = Turnstile(Clock(), most=1)
    waiting = [place(turnstile) for _ in range(1 + int(WAITED_S * FIRST_A_SECOND))]
    assert isinstance(turnstile.come(), float)
    turnstile.open()
    assert all(one.reached.is_set() for one in waiting) and turnstile.waiting == 0
    for one in waiting:
        one.leave()
    assert place(turnstile).reached.is_set() and not place(turnstile).reached.is_set()


def test_each_is_told_a_moment_of_its_own_and_none_beyond_the_latest() -> None:
    clock = Clock()
    turnstile = Turnstile(clock, most=0, waiting=0)
    told = [turnstile.come() for _ in range(100_000)]
    assert all(isinstance(one, float) and SOONEST_S <= one <= LATEST_S for one in told)
    assert told == sorted(told) and len(set(told[:1000])) == 1000 and told[-1] == LATEST_S
    clock.now_s += LATEST_S + 1.0
    assert turnstile.come() == pytest.approx(SOONEST_S, abs=2 / FIRST_A_SECOND)


def storm(agents: int, a_second: float, seed: int, slow_s: float = 0.0) -> tuple[float, list[int]]:
    """Seconds until the last of them is in, and how often each has tried. They come within two seconds, served one
    after another, a tenth as many a second for the first `slow_s`; each comes up to a second later than it was told."""
    chance, clock = random.Random(seed), Clock()
    turnstile, tries, began_s = Turnstile(clock), [0] * agents, clock.now_s
    due = [(clock.now_s + chance.uniform(0.0, 2.0), agent) for agent in range(agents)]
    heapq.heapify(due)
    standing: deque[Place] = deque()
    leaving: deque[tuple[float, Place]] = deque()
    free_s = clock.now_s
    while due or leaving:
        if leaving and (not due or leaving[0][0] <= due[0][0]):
            clock.now_s, done = leaving.popleft()
            done.leave()
        else:
            clock.now_s, agent = heapq.heappop(due)
            tries[agent] += 1
            found = turnstile.come()
            if isinstance(found, Place):
                standing.append(found)
            else:
                heapq.heappush(due, (clock.now_s + found + chance.random(), agent))
        while standing and standing[0].reached.is_set():
            free_s = max(free_s, clock.now_s)
            free_s += 1 / a_second if free_s - began_s > slow_s else 10 / a_second
            leaving.append((free_s, standing.popleft()))
    assert not standing
    return clock.now_s - began_s, tries


@pytest.mark.parametrize("agents", [1_000, 10_000])
@pytest.mark.parametrize("a_second", [100.0, 250.0, 400.0, 1_000.0])
def test_a_fleet_that_comes_back_is_in_after_little_more_than_serving_it_takes(agents: int, a_second: float) -> None:
    took_s, tries = storm(agents, a_second, seed=1)
    assert took_s <= max(1.05 * agents / a_second, agents / FIRST_A_SECOND) + 2 * SOONEST_S
    assert sum(tries) / agents <= 2.0 + took_s / LATEST_S


def test_what_is_slow_while_all_come_at_once_keeps_nobody_away_for_long() -> None:
    took_s, _ = storm(10_000, 400.0, seed=1, slow_s=10.0)
    assert took_s <= 10.0 + 10_000 / 400.0 + LATEST_S


def test_the_pace_is_that_of_the_best_span_while_many_are_inside() -> None:
    clock = Clock()
    turnstile = Turnstile(clock, most=4)
    assert turnstile.pace_s == 1 / FIRST_A_SECOND

    def served(gap_s: float, spans: int) -> None:
        inside = [place(turnstile) for _ in range(4)]
        for _ in range(round(spans * _SPAN_S / gap_s)):
            inside.append(place(turnstile))
            clock.now_s += gap_s
            inside.pop(0).leave()
        for one in inside:
            one.leave()

    served(0.1, _SPANS + 1)
    assert turnstile.pace_s == pytest.approx(0.1, rel=0.15)
    served(0.25, _SPANS // 2)
    assert turnstile.pace_s == pytest.approx(0.1, rel=0.15), "it has been better of late"
    served(0.25, _SPANS + 1)
    learnt_s = turnstile.pace_s
    assert learnt_s == pytest.approx(0.25, rel=0.3)
    for _ in range(10):
        clock.now_s += 60.0
        place(turnstile).leave()
    assert turnstile.pace_s == learnt_s, "who comes alone shows nothing"
