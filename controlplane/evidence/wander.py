"""How a pool's level wanders by itself: the noise that all requests of a moment share, fast and slow. Pure.

A tick's mean score is the level plus sampling noise, whose variance is known from the number of requests. What is left
is common: a sum of Ornstein-Uhlenbeck processes, whose variances are fitted to the covariances of the baseline's ticks
at lags from one tick to a third of its span (non-negative least squares). A history shows slow noise only in part; so
each slow process has a floor.

The fit answers one question: how do the means of spans of time vary together when nothing has happened?
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TAUS_TICKS = (0.0, 4.0, 12.0, 36.0, 120.0, 360.0, 1440.0)
"""Time constants; 0 is noise of a single tick."""
QUICK_TICKS = 36.0
MOST_LAG_SHARE = 1 / 3
CAUTION = 1.15
"""The fitted variances are raised by so much: they are themselves estimates."""
ROUNDS = 400


@dataclass(frozen=True)
class Wander:
    """variances: of the process of each of `TAUS_TICKS`, in squared units of what was fitted."""

    variances: tuple[float, ...]

    @property
    def tick(self) -> float:
        """The variance of a single tick's level."""
        return sum(self.variances)

    @property
    def quick(self) -> float:
        """The part that neighbouring ticks do not share."""
        return self.variances[0] + self.variances[1]

    def quick_over(self, ticks: int) -> float:
        """The variance of the mean of so many ticks, of what is over within minutes (up to `QUICK_TICKS`)."""
        edges = np.array([0.0, ticks])
        known = zip(self.variances[1:], TAUS_TICKS[1:], strict=True)
        quick = sum(variance * _mean_covariance(edges / tau)[0, 0] for variance, tau in known if tau <= QUICK_TICKS)
        return float(self.variances[0] / ticks + quick)

    def covariance(self, edges: Floats) -> Floats:
        """Of the mean levels of neighbouring spans, float64[spans, spans]; edges: their ends in ticks, ascending."""
        ticks = np.diff(edges)
        total = np.diag(self.variances[0] / ticks)
        for variance, tau in zip(self.variances[1:], TAUS_TICKS[1:], strict=True):
            if variance:
                total = total + variance * _mean_covariance(edges / tau)
        return np.asarray(total)


def _mean_covariance(edges: Floats) -> Floats:
    """Of the means of an Ornstein-Uhlenbeck process of variance 1; edges in time constants."""
    x = np.diff(edges)
    shrunk = -np.expm1(-x) / x
    gap = np.abs(np.maximum.outer(edges[:-1], edges[:-1]) - np.minimum.outer(edges[1:], edges[1:]))
    apart = np.exp(-gap) * np.outer(shrunk, shrunk)
    np.fill_diagonal(apart, 2.0 * (x + np.expm1(-x)) / x**2)
    return np.asarray(apart)


def fit(values: Floats, sampling: Floats, floors: Sequence[float]) -> Wander:
    """values: float64[ticks], nan where there was nothing; sampling: the known variance of each; floors: the least
    variance of each process."""
    known = np.isfinite(values)
    weight = (
        np.where(known, 1.0 / (sampling + np.median(sampling[known])), 0.0) if known.any() else np.zeros_like(values)
    )
    if known.sum() < 3:
        return Wander(tuple(floors))
    level = float((weight * np.where(known, values, 0.0)).sum() / weight.sum())
    apart = np.where(known, values - level, 0.0)
    lags = _lags(values.size)
    found = np.array([_covariance(apart, weight, lag) for lag in lags])
    found[0] -= float((weight**2 * np.where(known, sampling, 0.0)).sum() / (weight**2).sum())
    shape = np.array([[_correlation(lag, tau) for tau in TAUS_TICKS] for lag in lags])
    trust = np.sqrt(values.size / (np.array(lags) + 10.0))
    variances = CAUTION * _non_negative(shape * trust[:, None], found * trust)
    return Wander(tuple(np.maximum(variances, floors).tolist()))


def _lags(ticks: int) -> list[int]:
    found, lag = [0], 1.0
    while lag <= max(2.0, MOST_LAG_SHARE * ticks):
        found.append(round(lag))
        lag = max(lag + 1.0, lag * 1.4)
    return found


def _covariance(apart: Floats, weight: Floats, lag: int) -> float:
    ahead, behind = slice(lag, None), slice(None, apart.size - lag)
    pairs = weight[ahead] * weight[behind]
    total = float(pairs.sum())
    return float((pairs * apart[ahead] * apart[behind]).sum()) / total if total else 0.0


def _correlation(lag: int, tau: float) -> float:
    return float(lag == 0) if tau == 0.0 else math.exp(-lag / tau)


def _non_negative(shape: Floats, wanted: Floats) -> Floats:
    """Least squares with non-negative coefficients, by coordinate descent."""
    gram, right = shape.T @ shape, shape.T @ wanted
    found = np.zeros(shape.shape[1])
    for _ in range(ROUNDS):
        before = found.copy()
        for place in range(found.size):
            found[place] = max(0.0, found[place] + (right[place] - gram[place] @ found) / gram[place, place])
        if np.abs(found - before).max() <= 1e-9 * max(1e-12, found.max()):
            break
    return found
