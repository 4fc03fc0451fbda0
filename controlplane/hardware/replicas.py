"""How many replicas of a deployment carry a rate of requests, and how many requests each then has under way (pure)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

_HALVINGS = 60


@dataclass(frozen=True)
class Replica:
    """tpot_s: mean seconds between tokens with so many requests under way, never falling; prompt_s: seconds of a prompt
    alone; output: tokens; room: most requests that find room at once."""

    tpot_s: Callable[[float], float]
    prompt_s: float
    output: float
    room: float

    def requests_per_s(self, running: float) -> float:
        """With so many always under way: each takes its prompt, then a step a token."""
        return running / (self.prompt_s + self.output * self.tpot_s(running))


@dataclass(frozen=True)
class Carried:
    """replicas: as few as carry the rate; running: requests that each then has under way, on average."""

    replicas: int
    running: float


def carried(replica: Replica, rate: float, limit_s: float = math.inf) -> Carried | None:
    """rate: requests a second of all; limit_s: on the seconds between tokens. None: not even one request keeps it."""
    if replica.room < 1 or replica.tpot_s(1.0) > limit_s:
        return None
    most = replica.room
    if replica.tpot_s(most) > limit_s:
        most = _last(lambda running: replica.tpot_s(running) <= limit_s, replica.room)
    replicas = max(1, math.ceil(rate / replica.requests_per_s(most) - 1e-9))
    wanted = rate / replicas
    return Carried(replicas, _last(lambda running: replica.requests_per_s(running) <= wanted, most, low=0.0))


def _last(holds: Callable[[float], bool], high: float, low: float = 1.0) -> float:
    """The last place, from `low` to `high`, up to which it holds; it holds at `low`."""
    if holds(high):
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
