"""A storm of agents: all are let in, each after few tries, in about the time that serving them takes."""

import heapq
import random

import pytest

from controlplane.fleet.opamp.turnstile import FIRST_PACE_S, LATEST_S, MOST_INSIDE, SOONEST_S, Place, Turnstile


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_who_comes_while_there_is_room_is_let_in_and_leaves_once() -> None:
    turnstile = Turnstile(Clock(), most=2)
    first, second = turnstile.come(), turnstile.come()
    assert isinstance(first, Place) and isinstance(second, Place)
    assert isinstance(turnstile.come(), float)
    first.leave()
    first.leave()
    assert isinstance(turnstile.come(), Place) and isinstance(turnstile.come(), float)


def test_each_is_told_a_moment_of_its_own_and_none_beyond_the_latest() -> None:
    clock = Clock()
    turnstile = Turnstile(clock, most=0)
    told = [turnstile.come() for _ in range(100_000)]
    assert all(isinstance(one, float) and SOONEST_S <= one <= LATEST_S for one in told)
    assert told == sorted(told) and len(set(told[:1000])) == 1000 and told[-1] == LATEST_S
    clock.now_s += LATEST_S + 1.0
    assert turnstile.come() == pytest.approx(SOONEST_S, abs=2 * FIRST_PACE_S)


def storm(agents: int, a_second: float, seed: int) -> tuple[float, list[int]]:
    """Seconds until the last of them is in, and how often each has tried. They come within two seconds, served one
    after another; each comes up to a second later than it was told."""
    chance, clock = random.Random(seed), Clock()
    turnstile, tries, began_s = Turnstile(clock), [0] * agents, clock.now_s
    due = [(clock.now_s + chance.uniform(0.0, 2.0), agent) for agent in range(agents)]
    heapq.heapify(due)
    leaving: list[tuple[float, Place]] = []
    free_s = clock.now_s
    while due or leaving:
        if leaving and (not due or leaving[0][0] <= due[0][0]):
            clock.now_s, place = leaving.pop(0)
            place.leave()
            continue
        clock.now_s, agent = heapq.heappop(due)
        tries[agent] += 1
        found = turnstile.come()
        if isinstance(found, Place):
            free_s = max(free_s, clock.now_s) + 1 / a_second
            leaving.append((free_s, found))
        else:
            heapq.heappush(due, (clock.now_s + found + chance.random(), agent))
    return clock.now_s - began_s, tries


@pytest.mark.parametrize("agents", [1_000, 10_000])
@pytest.mark.parametrize("a_second", [100.0, 250.0, 1_000.0])
def test_a_fleet_that_comes_back_is_in_after_little_more_than_serving_it_takes(agents: int, a_second: float) -> None:
    took_s, tries = storm(agents, a_second, seed=1)
    assert took_s <= 1.5 * agents / a_second + 2 * SOONEST_S + MOST_INSIDE / a_second
    assert sum(tries) / agents <= 4.0


def test_the_pace_is_learnt_while_many_are_inside_alone() -> None:
    clock = Clock()
    turnstile = Turnstile(clock, most=4)
    places = [turnstile.come() for _ in range(4)]
    for place in places:
        clock.now_s += 0.5
        assert isinstance(place, Place)
        place.leave()
    learnt_s = turnstile.pace_s
    assert learnt_s > FIRST_PACE_S
    for _ in range(10):
        clock.now_s += 60.0
        alone = turnstile.come()
        assert isinstance(alone, Place)
        alone.leave()
    assert turnstile.pace_s == learnt_s
