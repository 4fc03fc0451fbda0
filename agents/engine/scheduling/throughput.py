"""How fast the engine is, measured on its own recent steps, and how long a newcomer would wait at that speed.

A step of n tokens takes `fixed + per_token x n` seconds. Both are fitted by least squares over recent steps, weighted
exponentially: a plain average of tokens per second would mistake a burst of prompts after a quiet hour of single
decodes for a backlog of minutes. Nothing is claimed before something was measured.
"""

import math

_STEP_WEIGHT = 0.98
"""A step weighs this much less than its successor: about the last 50 count."""
_SERVICE_WEIGHT = 0.9
_RIDGE = 1.0
"""Tokens squared added to their variance, so that steps of equal size give a slope of 0 instead of noise."""


class Throughput:
    """Fed with each step and each request's end."""

    def __init__(self) -> None:
        self._weight = self._tokens = self._seconds = self._tokens_squared = self._product = 0.0
        self._ends = self._service = 0.0

    def step(self, tokens: int, seconds: float) -> None:
        """A step of so many tokens took so long."""
        keep = _STEP_WEIGHT
        self._weight = keep * self._weight + 1.0
        self._tokens = keep * self._tokens + tokens
        self._seconds = keep * self._seconds + seconds
        self._tokens_squared = keep * self._tokens_squared + tokens * tokens
        self._product = keep * self._product + tokens * seconds

    def served(self, seconds: float) -> None:
        """A request has left the engine so long after it was first scheduled."""
        self._ends = _SERVICE_WEIGHT * self._ends + 1.0
        self._service = _SERVICE_WEIGHT * self._service + seconds

    @property
    def service_s(self) -> float | None:
        """Seconds a request stays once it has started; None before one has ended."""
        return self._service / self._ends if self._ends else None

    def step_cost(self) -> tuple[float, float]:
        """(seconds per step, seconds per token in it), neither below 0. There must have been a step."""
        tokens, seconds = self._tokens / self._weight, self._seconds / self._weight
        variance = max(0.0, self._tokens_squared / self._weight - tokens * tokens)
        slope = (self._product / self._weight - tokens * seconds) / (variance + _RIDGE)
        slope = min(max(slope, 0.0), seconds / tokens if tokens else 0.0)
        return seconds - slope * tokens, slope

    def wait_s(self, requests: int, tokens: int, *, running: int, seats: int, tokens_per_step: int) -> float | None:
        """Seconds until a newcomer is scheduled; None when nothing was measured yet.

        requests: that start before it. tokens: of prompts that are computed before it. running: requests that hold the
        seats, of which there are `seats`. tokens_per_step: most prompt tokens in a step.

        The longer of two: the time to compute the prompts ahead; and, when there is no free seat for it, the time until
        enough requests have left, at the measured stay of a request (Little's law: `seats / stay` leave a second).
        """
        if not self._weight:
            return None
        fixed, per_token = self.step_cost()
        computing = math.ceil(tokens / max(1, tokens_per_step)) * fixed + tokens * per_token
        leaving = running + requests + 1 - seats
        if leaving <= 0 or self.service_s is None:
            return computing
        return max(computing, leaving * self.service_s / max(1, min(seats, running + requests)))
