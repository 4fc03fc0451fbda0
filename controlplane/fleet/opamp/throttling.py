"""How often agents are to speak, and how often all of them are looked at: pure.

Guarantee: heartbeats of many agents come no more often than `BEATS_A_SECOND`, as far as `LONGEST_S` allows, a third of
`SOCKET_SILENCE_S`.
"""

import math

OWN_S = 10
"""Between two heartbeats of an agent that nobody has told otherwise."""
LONGEST_S = 50
STEP_S = 10
"""A few more agents are no reason to tell all of them another interval."""
BEATS_A_SECOND = 200

LOOKING_SHARE, LONGEST_PAUSE_S = 0.005, 4.0


def heartbeat_s(agents: int) -> int:
    """Seconds between two heartbeats of each of so many agents."""
    wanted_s = math.ceil(agents / BEATS_A_SECOND / STEP_S) * STEP_S
    return min(max(wanted_s, OWN_S), LONGEST_S)


def look_pause_s(wanted_s: float, took_s: float) -> float:
    """Until the next look at the whole fleet, when the last has taken so long: looking is a small part of the time."""
    return max(wanted_s, min(took_s / LOOKING_SHARE, LONGEST_PAUSE_S))
