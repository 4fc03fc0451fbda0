"""Between what a step may cost, for all that a fit's rows tell. Pure.

Where all prompts are computed in pieces of 16 tokens, a piece and its tokens always come together: what either costs is
not known, though their sum is, and a step with a piece of 256 may cost anything between one piece and sixteen. So the
cheapest and the dearest step are sought among all costs that explain the rows hardly worse than the best do (the
profile likelihood's interval of 95 %).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import nnls

from tuner.twin.costs.nonnegative_fit import Row, pace_of
from tuner.twin.costs.step_terms import StepCost, Terms

SURE = 0.975
"""Of each end."""
FARTHEST = 8.0
"""So many times as cheap or as dear is as far as it looks."""
_HALVINGS = 12
_CERTAIN = 1e3
"""How much more than all else the asked step's cost counts, once it is set."""
_EXACT = 1e-9


def cost_range(rows: Sequence[Row], fitted: StepCost, asked: Terms) -> tuple[StepCost, StepCost]:
    """Costs that make this step cheapest, and those that make it dearest. fitted: to these rows."""
    terms, best_s = np.array([row.terms for row in rows], dtype=float), fitted.seconds(asked)
    told = np.array([row.seconds for row in rows]) / pace_of(rows, fitted)
    expected = np.array([fitted.seconds(row.terms) for row in rows])
    expected = np.where(expected > 0.0, expected, told)
    columns = terms / expected[:, None]
    scale = columns.max(axis=0)
    scale[scale == 0.0] = 1.0
    # Its triangular root has the same squares, and seven rows however many there were.
    root = np.linalg.qr(np.column_stack([columns / scale, told / expected])).R
    step = np.array(asked) / best_s / scale
    free = max(1, len(rows) - len(asked) - len({row.stretch for row in rows}))
    least, _ = _solved(root, step, 1.0)
    most = (least + _EXACT) * (1.0 + float(stats.t.ppf(SURE, free)) ** 2 / free)
    return _end(root, step, scale, most, 1.0 / FARTHEST), _end(root, step, scale, most, FARTHEST)


def _end(
    root: NDArray[np.float64], step: NDArray[np.float64], scale: NDArray[np.float64], most: float, farthest: float
) -> StepCost:
    """The farthest on one side that the rows allow."""
    squares, found = _solved(root, step, farthest)
    near, far = 0.0, math.log(farthest)
    if squares > most:
        found = _solved(root, step, 1.0)[1]
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            squares, tried = _solved(root, step, math.exp(middle))
            near, far, found = (middle, far, tried) if squares <= most else (near, middle, found)
    return StepCost.of(found / scale)


def _solved(root: NDArray[np.float64], step: NDArray[np.float64], factor: float) -> tuple[float, NDArray[np.float64]]:
    """The sum of squares that is left, and the costs, where the asked step costs so many times what was fitted."""
    matrix, target = root[:, :-1], root[:, -1]
    found, _ = nnls(np.vstack([matrix, _CERTAIN * step]), np.append(target, _CERTAIN * factor))
    return float(np.sum((matrix @ found - target) ** 2)), found
