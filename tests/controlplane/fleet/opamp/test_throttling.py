"""How often agents speak, and how often all of them are looked at."""

import pytest

from controlplane.fleet.opamp import throttling
from controlplane.fleet.opamp.quiet_beats import FRESH_S
from controlplane.fleet.store import SOCKET_SILENCE_S


@pytest.mark.parametrize(
    ("agents", "seconds"), [(0, 10), (2_000, 10), (2_001, 20), (4_001, 30), (6_001, 40), (10**6, 50)]
)
def test_more_agents_speak_more_seldom(agents: int, seconds: int) -> None:
    assert throttling.heartbeat_s(agents) == seconds
    assert 3 * throttling.heartbeat_s(agents) <= SOCKET_SILENCE_S


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.0, 1.0), (0.005, 1.0), (0.0125, 2.5), (0.02, 4.0), (10.0, 4.0)])
def test_a_large_fleet_is_looked_at_more_seldom(took_s: float, pause_s: float) -> None:
    assert throttling.look_pause_s(1.0, took_s) == pytest.approx(pause_s)
    assert throttling.LONGEST_PAUSE_S < FRESH_S, "else no heartbeat is answered from memory"
