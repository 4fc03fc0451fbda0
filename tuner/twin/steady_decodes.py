"""Running decodes that each step gives one token to, until a step that is known: nobody has to look at them before.

Guarantee: a row is due before the first step in which it needs a block, fills one or may end. Until then a step adds
a token to it and does nothing else, whatever else is decided, as long as it is neither preempted nor left out: whoever
holds it here sees to that.
"""

from heapq import heappop, heappush

from agents.engine.scheduling.policy import Rank
from tuner.twin.simulated_request import SimulatedRequest


def idle_steps(request: SimulatedRequest) -> int:
    """In how many of a decode's next steps it does nothing but take a token."""
    length = len(request.tokens)
    return min(request.covered - length + 1, request.settle_at - length, request.most_tokens - length - 1)


class SteadyDecodes:
    """Rows by the step at which each is due; steps are counted from the engine's start."""

    def __init__(self) -> None:
        self.rows = 0
        self.context = 0
        """Tokens of all of them, before the next step."""
        self._due: list[tuple[int, Rank, SimulatedRequest]] = []

    @property
    def due_at(self) -> int:
        """The first step at which a row is due. There must be one."""
        return self._due[0][0]

    def add(self, request: SimulatedRequest, steps: int, idle: int) -> None:
        """After so many steps of the engine; idle: its `idle_steps`."""
        request.advanced_at = steps
        self.rows += 1
        self.context += len(request.tokens)
        heappush(self._due, (steps + idle, request.rank, request))

    def stepped(self, count: int) -> None:
        """So many steps have been taken."""
        self.context += self.rows * count

    def take(self, steps: int, now: float) -> list[SimulatedRequest]:
        """Those that are due before the next step, by rank, and no longer here."""
        found = []
        while self._due and self._due[0][0] <= steps:
            found.append(self._taken(steps, now))
        return found

    def take_all(self, steps: int, now: float) -> list[SimulatedRequest]:
        found = []
        while self._due:
            found.append(self._taken(steps, now))
        return found

    def _taken(self, steps: int, now: float) -> SimulatedRequest:
        _, _, request = heappop(self._due)
        request.advance(steps - request.advanced_at, now)
        self.rows -= 1
        self.context -= len(request.tokens)
        return request
