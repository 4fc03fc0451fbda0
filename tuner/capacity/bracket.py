"""Which load is replayed next, to find the largest that keeps the limits. Pure.

Doubled until a limit breaks, halved where the first load breaks one; then the middle of the bracket until it is narrow,
and after that close to both sides of the crossing, where a replay says most of it.
"""

from __future__ import annotations

import math

from tuner.capacity.monotone_fit import MonotoneFit

LEAST, MOST = 1 / 8, 16.0
"""Times the load of the slice: nothing smaller or larger is replayed."""
NARROW = 1.3
"""A bracket whose edges differ by less than this is not halved any more: one replay's noise is as wide."""
NEAR = 1.1
"""So many times the crossing, or one so manieth of it, is replayed then."""
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def first_load(heat: int | None) -> float:
    """Where a run begins. Heats begin at different places, so that no two replay the same loads and what lies between
    them evens out; both arms of a pair begin at the same. `heat`: None for the search."""
    if heat is None:
        return 1.0
    return math.exp2(((heat + 1) * _GOLDEN) % 1.0 - 0.5)


def next_load(fit: MonotoneFit) -> float | None:
    """After what was replayed; None: the bound is reached, and no load tells more."""
    low, high = fit.edges
    if high == math.inf:
        return low * 2.0 if low * 2.0 <= MOST else None
    if not low:
        return high / 2.0 if high / 2.0 >= LEAST else None
    if high / low > NARROW:
        return math.sqrt(low * high)
    return fit.crossing * (NEAR if len(fit.loads) % 2 else 1.0 / NEAR)
