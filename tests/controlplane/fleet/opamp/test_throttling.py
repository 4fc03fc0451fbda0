"""How often agents speak."""

import pytest

from controlplane.fleet.opamp import throttling
from controlplane.fleet.store import SOCKET_SILENCE_S


@pytest.mark.parametrize(
    ("agents", "seconds"), [(0, 10), (2_000, 10), (2_001, 20), (4_001, 30), (6_001, 40), (10**6, 50)]
)
def test_more_agents_speak_more_seldom(agents: int, seconds: int) -> None:
    assert throttling.heartbeat_s(agents) == seconds
    assert 3 * throttling.heartbeat_s(agents) <= SOCKET_SILENCE_S
