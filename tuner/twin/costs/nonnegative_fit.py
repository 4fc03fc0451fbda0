"""Seconds of each term by non-negative least squares of relative errors (Lawson and Hanson 1974, by scipy).

No term can cost less than nothing, so that a fit to few or narrow observations stays a machine; and a short window or
step counts as much as a long one, since what is forecast are ratios. Errors are relative to what is predicted, by
reweighting: relative to what was observed, rows that were fast by chance would count most, and all costs come out low.

A machine's pace wanders, and where it is slow more requests run at once: a fit to all rows alike would make their
number dear and the step cheap. So each stretch of time has a pace of its own, found together with the costs by turns;
costs are those of the middle pace.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from tuner.twin.costs.step_terms import StepCost, Terms

Floats = NDArray[np.float64]
_ROUNDS, _PACED_ROUNDS = 4, 60
_SETTLED = 1e-4


@dataclass(frozen=True)
class Row:
    """Terms of a step, or of many together, and what they took in seconds. stretch: of time; its rows had one pace."""

    terms: Terms
    seconds: float
    stretch: int = 0


@dataclass(frozen=True)
class Fit:
    """draws: the fits of resampled rows, for intervals. median_error: of the rows' seconds, relative."""

    cost: StepCost
    draws: tuple[StepCost, ...]
    median_error: float


def fit(rows: Sequence[Row], draws: int = 0, seed: int = 0) -> Fit:
    """At least one row, each of some seconds."""
    terms = np.array([row.terms for row in rows], dtype=float)
    seconds = np.array([row.seconds for row in rows])
    _, stretches = np.unique([row.stretch for row in rows], return_inverse=True)
    cost = _solved(terms, seconds, stretches)
    chosen = np.random.default_rng(seed).integers(0, len(rows), size=(draws, len(rows)))
    resampled = tuple(_solved(terms[places], seconds[places], stretches[places]) for places in chosen)
    predicted = terms @ np.array(cost.seconds_each)
    return Fit(cost, resampled, float(np.median(np.abs(predicted / seconds - 1.0))))


def _solved(terms: Floats, seconds: Floats, stretches: NDArray[np.intp]) -> StepCost:
    each = np.zeros(terms.shape[1])
    expected, pace = seconds, np.ones(len(seconds))
    for _ in range(_PACED_ROUNDS if stretches.max() else _ROUNDS):
        relative = terms / expected[:, None]
        scale = relative.max(axis=0)  # Columns of like size, or small ones are lost.
        scale[scale == 0.0] = 1.0
        solution, _ = nnls(relative / scale, seconds / pace / expected)
        each = solution / scale
        predicted = terms @ each
        expected = np.where(predicted > 0.0, predicted, seconds)
        before, pace = pace, _pace(np.log(seconds / expected), stretches)
        if stretches.max() and np.abs(pace / before - 1.0).max() < _SETTLED:
            break
    return StepCost.of(each)


def pace_of(rows: Sequence[Row], cost: StepCost) -> Floats:
    """Of each row its stretch's, as it was found with these costs."""
    _, stretches = np.unique([row.stretch for row in rows], return_inverse=True)
    seconds = np.array([row.seconds for row in rows])
    expected = np.array([cost.seconds(row.terms) for row in rows])
    return _pace(np.log(seconds / np.where(expected > 0.0, expected, seconds)), stretches)


def _pace(logs: Floats, stretches: NDArray[np.intp]) -> Floats:
    """Of each row its stretch's: how many times as long as expected its rows took, 1 in the middle of all stretches."""
    counts = np.bincount(stretches)
    of_stretch = np.bincount(stretches, logs) / np.maximum(counts, 1)
    middle = float(of_stretch[counts > 0].mean())
    found: Floats = np.exp(of_stretch[stretches] - middle)
    return found
