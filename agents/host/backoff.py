"""How long to wait before the next try."""

import random

from controlplane.contract.retry import doubling_s


class Backoff:
    """Doubling waits from `first_s` up to `limit_s`, each up to a quarter shorter so that a fleet spreads out."""

    def __init__(self, first_s: float = 0.5, limit_s: float = 30.0) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._tries = 0

    def reset(self) -> None:
        """The last try went well."""
        self._tries = 0

    def next_s(self) -> float:
        """The wait after one more failure, in seconds."""
        self._tries += 1
        return doubling_s(self._tries, self._first_s, self._limit_s) * random.uniform(0.75, 1.0)


def spread_s(wait_s: float) -> float:
    """That long or up to half as long again, by at least a second: many who were told the same do not come back at
    the same moment."""
    return wait_s + random.uniform(0.0, max(wait_s / 2, 1.0))


def within_the_second(wait_s: float) -> float:
    """That long and up to a second more: Retry-After tells whole seconds, and the same to many."""
    return wait_s + random.random()
