"""Which finalist meets the default: by its heats on fresh traffic, and by what the search believes of it. Pure.

A choice is worth its gain times the chance that its limits hold (decision 99), here as in the search: the fastest whose
limits held in two noisy runs is the luckiest at a limit, and a winner beyond one changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean

from tuner.search.belief import BREAKS, LIKELY, TOLD_NOISE, TRIFLE
from tuner.search.objective import Assessment, constraint_value
from tuner.search.search import Outcome

HEATS = 2
"""Runs of each finalist before one is chosen."""
NEAR, BEHIND = 0.5, 1.25
"""Who is worth less than this share of the best leaves after a heat; so does who takes so many times as long."""
DOUBT = 0.02
"""Traffic that was not seen may be otherwise: no belief of the search counts for more than one less this."""
_FAILED = -1.0

Heats = Sequence[Sequence[Assessment]]
"""Runs of each finalist, one at least."""


def standing(finalists: Sequence[Outcome], heats: Heats) -> list[int]:
    """Places of finalists, what is worth most first; what could not be measured last."""
    worth = _worth(finalists, heats)
    return sorted(range(len(heats)), key=lambda place: -worth[place])


def still_running(finalists: Sequence[Outcome], heats: Heats) -> list[int]:
    """Who runs the next heat: all worth nearly as much as the best and not far behind it; the best at least."""
    worth, times = _worth(finalists, heats), [_log_time(runs) for runs in heats]
    best, *others = standing(finalists, heats)
    most = times[best] + math.log(BEHIND)
    near = [place for place in others if worth[place] >= NEAR * worth[best] and times[place] <= most]
    return [best, *(place for place in near if worth[place] > 0)]


def _worth(finalists: Sequence[Outcome], heats: Heats) -> list[float]:
    """Gain (log ratio) times the probability that all limits hold. The gain is on what goes on otherwise: the default,
    as far from these as the search believes it; or, where that is faster, somewhat more than the fastest likely to
    hold. Less than nothing of what could not be measured.
    """
    times = [_log_time(runs) for runs in heats]
    measured = [place for place, time in enumerate(times) if time < math.inf]
    if not measured:
        return [_FAILED] * len(heats)
    keeps = [_keeps(one.feasible, runs) for one, runs in zip(finalists, heats, strict=True)]
    default = fmean(times[place] + finalists[place].gain for place in measured)
    likely = [times[place] for place in measured if keeps[place] >= LIKELY]
    otherwise = max(default, min(likely, default=-math.inf) + BREAKS)
    return [
        max(otherwise - time, TRIFLE) * kept if time < math.inf else _FAILED
        for time, kept in zip(times, keeps, strict=True)
    ]


def _log_time(runs: Sequence[Assessment]) -> float:
    """Of the objective, the mean of the logarithm; infinite where a run came to none."""
    return fmean(math.log(run.objective_s) if run.objective_s else math.inf for run in runs)


def _keeps(believed: float, runs: Sequence[Assessment]) -> float:
    """The probability that all limits hold: the heats' own, beside what the search believes (odds multiply)."""
    noise = NormalDist(0.0, TOLD_NOISE / math.sqrt(len(runs)))
    own = 1.0
    for name in set().union(*(run.violations for run in runs)):
        over = [constraint_value(run.violations[name]) for run in runs if name in run.violations]
        own *= noise.cdf(-fmean(over))
    before = min(max(believed, DOUBT), 1.0 - DOUBT)
    yes, no = own * before, (1.0 - own) * (1.0 - before)
    return yes / (yes + no)
