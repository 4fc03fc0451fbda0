"""How often agents are to speak, and when one that comes anew is to come later: pure, chance is handed in.

Guarantees: heartbeats of many agents come no more often than `BEATS_A_SECOND`, as far as `LONGEST_S` allows, a third of
`SOCKET_SILENCE_S`. After an outage agents are let in as fast as they can be served; the others come back at moments
spread at random, so that each is let in sooner or later. A WebSocket that is in is never turned away.
"""

import math

OWN_S = 10
"""Between two heartbeats of an agent that nobody has told otherwise."""
LONGEST_S = 50
STEP_S = 10
"""A few more agents are no reason to tell all of them another interval."""
BEATS_A_SECOND = 200

MOST_WAITING = 256
"""Reports that wait for a worker, beyond which agents that come anew are told to come later."""
SOONEST_S, LATEST_S = 2.0, 10.0
"""When they are to come again."""


def heartbeat_s(agents: int) -> int:
    """Seconds between two heartbeats of each of so many agents."""
    wanted_s = math.ceil(agents / BEATS_A_SECOND / STEP_S) * STEP_S
    return min(max(wanted_s, OWN_S), LONGEST_S)


def come_again_s(waiting: int, chance: float) -> float | None:
    """When an agent that comes anew is to come again; None: it is served. `chance`: from 0 to 1, evenly."""
    return None if waiting < MOST_WAITING else SOONEST_S + chance * (LATEST_S - SOONEST_S)
