"""After how many of its requests a replay has come to rest: MSER-5 of how many requests each arrival finds under way.
Pure.

MSER-5 (White, Cobb and Spratt, "A comparison of five steady-state truncation heuristics for simulation", WSC 2000):
means of five values each, of which so many of the first are left out that the standard error of the others' mean is
least, at most half of them. Where that wants half of them left out, and the other half is the higher one, the queue
still grows at the end. What is looked at is the queue as arrivals see it, not latencies: they differ as prompts do, and
would be left out for being long.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence

from tuner.replay.completion import RequestTiming

BATCH = 5
FEWEST_BATCHES = 8
"""Of fewer it would be chance what is told."""


def found_under_way(timings: Sequence[RequestTiming]) -> list[int]:
    """How many of the earlier requests had not ended when each was due. timings: in the order of arrival."""
    ended: list[float] = []
    found = []
    for before, timing in enumerate(timings):
        found.append(before - bisect_right(ended, timing.scheduled_s))
        ended.insert(bisect_right(ended, end := timing.scheduled_s + timing.lateness_s + timing.e2e_s), end)
    return found


def settled_after(values: Sequence[float]) -> int | None:
    """So many of the first values do not count; all of them: the series still grows at its end. None of too few."""
    means = [math.fsum(values[at : at + BATCH]) / BATCH for at in range(0, len(values) - BATCH + 1, BATCH)]
    if len(means) < FEWEST_BATCHES:
        return None
    half = len(means) // 2
    best = min(range(half + 1), key=lambda first: _squared_error(means[first:]))
    grows = best == half and math.fsum(means[half:]) / (len(means) - half) > math.fsum(means[:half]) / half
    return len(values) if grows else best * BATCH


def _squared_error(means: Sequence[float]) -> float:
    """Of their mean, but for a constant factor."""
    middle = math.fsum(means) / len(means)
    return math.fsum((one - middle) ** 2 for one in means) / len(means) ** 2
