"""How far a machine's pace wanders, learned from what a fit leaves unexplained, stretch by stretch. Pure.

A fit's own spread says how well its costs are known of the time that it saw. What is forecast comes later, on a machine
that others share, that is warmer or colder: its pace then is another draw of what it was from stretch to stretch.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from tuner.twin.costs.nonnegative_fit import Fit, Row
from tuner.twin.costs.step_terms import StepCost

STRETCHES = 8
SURE = 0.975
"""Of each end of the pace's interval."""
_FEWEST = 3


def wander(rows: Sequence[Row], cost: StepCost) -> float:
    """How many times as fast or as slow a stretch to come may be as `rows`, at least 1: the prediction interval of 95 %
    of one more stretch (logarithms, Student's t). rows: in their order in time, each in one of up to `STRETCHES`
    stretches; of too few nothing is known, and 1 is told. What rows scatter by beside the pace counts, too, divided by
    how many a stretch has.
    """
    count = min(STRETCHES, len(rows) // 2)
    if count < _FEWEST:
        return 1.0
    logs = []
    for places in np.array_split(np.arange(len(rows)), count):
        expected = math.fsum(cost.seconds(rows[place].terms) for place in places)
        logs.append(math.log(math.fsum(rows[place].seconds for place in places) / expected))
    spread = float(np.std(logs, ddof=1)) * math.sqrt(1.0 + 1.0 / count)
    return math.exp(float(stats.t.ppf(SURE, count - 1)) * spread)


def costs_around(fitted: Fit, far: float) -> list[StepCost]:
    """Of the runs that a forecast's interval is made of: what was fitted first, then what it may be otherwise."""
    return [fitted.cost, *fitted.draws, fitted.cost.scaled(far), fitted.cost.scaled(1.0 / far)]
