"""What passes between two steps, which is in no step's seconds: found by the median time per output token. Pure.

An engine's loop takes and hands on between steps; what it takes, and by how much the middle step is quicker than the
mean one, is of each step, however long: a factor on all costs would make long prompts dearer for it, too.
"""

from collections.abc import Callable

_LOOKS = 3
_LEAST_SLOPE = 0.1
"""Where the told median follows the pause less than this, steps have no part left that it could be taken from."""


def pause(tpot_s: Callable[[float], float | None], measured_s: float) -> float:
    """Seconds that each step comes later (below 0: sooner), so that the median that the twin tells is as measured; 0
    where it tells none. tpot_s: the twin's median with a pause. By the secant, since with drafts a step gives more than
    one token."""
    told_s = tpot_s(0.0)
    if told_s is None:
        return 0.0
    before_s, found_s = 0.0, measured_s - told_s
    for _ in range(_LOOKS - 1):
        next_s = tpot_s(found_s)
        if next_s is None or found_s == before_s:
            break
        slope = (next_s - told_s) / (found_s - before_s)
        if slope < _LEAST_SLOPE:
            break
        before_s, told_s, found_s = found_s, next_s, found_s + (measured_s - next_s) / slope
    return found_s
