"""How often agents speak, and a storm of them that come back at once."""

import random

import pytest

from controlplane.fleet.opamp import throttling
from controlplane.fleet.store import SOCKET_SILENCE_S


@pytest.mark.parametrize(
    ("agents", "seconds"), [(0, 10), (2_000, 10), (2_001, 20), (4_001, 30), (6_001, 40), (10**6, 50)]
)
def test_more_agents_speak_more_seldom(agents: int, seconds: int) -> None:
    assert throttling.heartbeat_s(agents) == seconds
    assert 3 * throttling.heartbeat_s(agents) <= SOCKET_SILENCE_S


def test_who_comes_while_few_wait_is_served() -> None:
    assert throttling.come_again_s(throttling.MOST_WAITING - 1, 0.5) is None
    assert throttling.come_again_s(throttling.MOST_WAITING, 0.0) == throttling.SOONEST_S
    assert throttling.come_again_s(throttling.MOST_WAITING, 1.0) == throttling.LATEST_S


@pytest.mark.parametrize("a_second", [400, 2_000])
def test_of_ten_thousand_that_come_at_once_each_is_let_in(a_second: int) -> None:
    """Served at a steady pace, the last of them are in hardly later than a queue of them all would let them in."""
    agents, chance, tick_s = 10_000, random.Random(5), 0.05
    due = [0.0] * agents
    waiting, now, served = 0, 0.0, 0
    while served < agents:
        still = []
        for at in due:
            if at > now:
                still.append(at)
            elif (later_s := throttling.come_again_s(waiting, chance.random())) is None:
                waiting += 1
            else:
                still.append(now + later_s)
        due = still
        done = min(waiting, int(a_second * tick_s))
        waiting, served, now = waiting - done, served + done, now + tick_s
    assert now < agents / a_second + 2 * throttling.LATEST_S
