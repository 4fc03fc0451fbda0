"""Which of several kernels a layer gets, from how long each took: a decision without side effects.

One kernel serves a layer at every number of rows, though another might be quicker at some: the bits of a row would
otherwise hang on how many rows it was computed with, and the weight would be held in two packed forms. So what counts
is the geometric mean over the numbers of rows, each weighing the same: twice as fast at one makes up for twice as slow
at another.
"""

import math
from collections.abc import Mapping

MARGIN = 0.05
"""How much less time than the incumbent's another kernel must take: less than that is noise."""

Seconds = Mapping[str, Mapping[int, float]]
"""Kernel to number of rows to seconds. The first kernel is the incumbent."""


def relative_times(seconds: Seconds) -> dict[str, float]:
    """Each kernel's time over the incumbent's, as a geometric mean over the numbers of rows at which both were timed;
    infinite where there are none."""
    incumbent = next(iter(seconds.values()))
    found = {}
    for name, own in seconds.items():
        ratios = [own[rows] / base for rows, base in incumbent.items() if rows in own]
        found[name] = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.inf
    return found


def ranked(seconds: Seconds) -> list[str]:
    """The kernels, best first; the incumbent stands before those that do not beat it by `MARGIN`."""
    times = relative_times(seconds)
    incumbent = next(iter(seconds))
    return sorted(times, key=lambda name: times[name] + (MARGIN if name != incumbent else 0.0))
