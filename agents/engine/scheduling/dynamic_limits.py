"""How many prompt tokens a step may compute, so that decodes in the same step keep to a latency target.

Every gap between tokens is a step long, so the 99th percentile of step durations is that of the gaps. It is steered,
not estimated: a step beyond the target lowers the limit by much, one within it raises the limit by little, in the ratio
99 to 1, so that the limit rests where 1 % of the steps are beyond the target (stochastic approximation of a quantile,
Robbins and Monro 1951). A deep queue shifts the balance towards throughput: with as many waiting as running 2 % may be
beyond, up to 5 %.
"""

_TOLERATED = 0.01
_MOST_DEPTH = 4.0
_STEP_SIZE = 0.3
"""A step beyond the target multiplies the limit by about 1 - 0.3."""
_LEAST = 16
"""Tokens that a step may always compute, if its budget allows; else prompts would hardly advance."""


class PrefillLimit:
    """Off without a target: then the limit is the whole budget."""

    def __init__(self, itl_target_s: float | None) -> None:
        self.itl_target_s = itl_target_s
        self._limit: float | None = None  # Tokens; None: not yet moved from the whole budget.

    def tokens(self, budget: int) -> int:
        """Prompt tokens that a step with this budget may compute: 16 at least (or the budget), the budget at most."""
        if self.itl_target_s is None or self._limit is None:
            return budget
        return min(budget, max(_LEAST, int(self._limit)))

    def observe(self, step_s: float, prompt_tokens: int, decodes: int, budget: int, depth: float) -> None:
        """Take in a step. depth: requests that wait for each that runs.

        Only steps that computed prompts beside decodes say anything about the limit, and only one that used the limit
        up says that more would have been fine.
        """
        if self.itl_target_s is None or not prompt_tokens or not decodes:
            return
        limit = self.tokens(budget)
        tolerated = _TOLERATED * (1.0 + min(_MOST_DEPTH, depth))
        if step_s > self.itl_target_s:
            # Less than the limit was too much already; but one slow step with few tokens may be an accident.
            wanted = min(limit, max(limit / 2, prompt_tokens)) * (1.0 - _STEP_SIZE * (1.0 - tolerated))
        elif prompt_tokens >= limit:
            wanted = (self._limit or limit) * (1.0 + _STEP_SIZE * tolerated)
        else:
            return
        self._limit = min(float(budget), max(float(_LEAST), wanted))
