"""How a pool's level wanders by itself: the noise that all requests of a moment share, fast and slow. Pure.

A tick's mean score is the level plus sampling noise, whose variance is known from the number of requests. What is left
is common: a sum of Ornstein-Uhlenbeck processes, whose variances are fitted to how far neighbouring spans of the
baseline differ, from spans of one tick to spans of a fourth of it (the Allan variance at each scale, or what is left of
it after sampling). A history shows slow noise only in part; so each slow process has a floor.

The fit answers one question: how do the means of spans of time vary together when nothing has happened?
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TAUS_TICKS = (0.0, 4.0, 12.0, 36.0, 120.0, 360.0, 1440.0)
"""Time constants; 0 is noise of a single tick."""
QUICK_TICKS = 36.0
SCALES = tuple(2**power for power in range(14))
LEAST_PAIRS = 2
CAUTION = 1.0
"""Standard errors by which what is seen at a scale is raised."""
CAUTION_BY_PAIRS = 3.0
"""Divided by how many pairs were seen: the part by which it is raised instead where noise is known by many of them."""
GROWN = 3.0
"""Standard errors by which differences at a scale may exceed earlier ones by chance."""
REWEIGHTED = 4
ROUNDS = 30
TINY = 1e-9


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
        known = zip(self.variances[1:], TAUS_TICKS[1:], strict=True)
        quick = sum(variance * _mean_variance(ticks, tau) for variance, tau in known if tau <= QUICK_TICKS)
        return float(self.variances[0] / ticks + quick)

    def covariance(self, edges: Floats) -> Floats:
        """Of the mean levels of neighbouring spans, float64[spans, spans]; edges: their ends in ticks, ascending."""
        ticks = np.diff(edges)
        total = np.diag(self.variances[0] / ticks)
        for variance, tau in zip(self.variances[1:], TAUS_TICKS[1:], strict=True):
            if variance:
                total = total + variance * _known_covariance(edges.astype(np.float64).tobytes(), tau)
        return np.asarray(total)


@lru_cache(maxsize=128)
def _mean_variance(ticks: int, tau: float) -> float:
    """Of the mean of so many ticks of an Ornstein-Uhlenbeck process of variance 1."""
    return float(_mean_covariance(np.array([0.0, ticks]) / tau)[0, 0])


@lru_cache(maxsize=128)
def _known_covariance(edges: bytes, tau: float) -> Floats:
    """`_mean_covariance` of float64 edges in ticks: at one look all lines of a judge have the same spans."""
    found = _mean_covariance(np.frombuffer(edges) / tau)
    found.flags.writeable = False
    return found


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
    return wander_of(differences(values, sampling), floors)


def wander_of(
    seen: Sequence["Seen"], floors: Sequence[float], before: Sequence["Earlier"] = (), *, by_pairs: bool = False
) -> Wander:
    """The wandering that differences by scale show; before: of longer ago, where that is known.

    Where noise has grown at any scale since, by more than chance explains, `before` says nothing. by_pairs: what is
    seen is raised by `CAUTION_BY_PAIRS` rather than by `CAUTION`.
    """
    if not seen:
        return Wander(tuple(floors))
    known = {one.scale: one for one in before}
    earlier = {now.scale: known[now.scale].under(now.sampling) for now in seen if now.scale in known}
    if not any(now.has_grown(earlier[now.scale]) for now in seen if now.scale in earlier):
        seen = [now.joined(earlier[now.scale]) if now.scale in earlier else now for now in seen]
    shape = np.array([[_shape(found.scale, tau) for tau in TAUS_TICKS] for found in seen])
    return Wander(tuple(np.maximum(_likeliest(seen, shape, by_pairs), floors).tolist()))


def differences(values: Floats, sampling: Floats) -> list["Seen"]:
    """How far neighbouring spans differ, by scale; nothing of fewer than three ticks. Arguments as of `fit`."""
    known = np.isfinite(values)
    if known.sum() < 3:
        return []
    weight = np.where(known, 1.0 / (sampling + np.median(sampling[known])), 0.0)
    sums = np.concatenate(
        [np.zeros((3, 1)), np.cumsum([weight, weight * np.where(known, values, 0.0), weight**2 * sampling], axis=1)],
        axis=1,
    )
    scales = [scale for scale in SCALES if 2 * LEAST_PAIRS * scale <= values.size] or [1]
    return [found for scale in scales if (found := _seen(sums, scale)).pairs]


class Seen(NamedTuple):
    """Differences between neighbouring spans of `scale` ticks: how many (not overlapping), their mean square, and how
    much of it is sampling."""

    scale: int
    pairs: float
    square: float
    sampling: float

    def joined(self, other: "Seen") -> "Seen":
        """With those of another stretch, of the same scale and with as much sampling."""
        pairs = self.pairs + other.pairs
        return self._replace(pairs=pairs, square=(self.pairs * self.square + other.pairs * other.square) / pairs)

    def has_grown(self, earlier: "Seen") -> bool:
        return self.square > earlier.square * (1.0 + GROWN * math.sqrt(2.0 / self.pairs + 2.0 / earlier.pairs))


class Earlier(NamedTuple):
    """The same of longer ago, freed of its sampling: `noise` may be below 0 by chance."""

    scale: int
    pairs: float
    noise: float

    def under(self, sampling: float) -> Seen:
        """As differences that hold so much sampling."""
        return Seen(self.scale, self.pairs, max(self.noise, 0.0) + sampling, sampling)


def _seen(sums: Floats, scale: int) -> Seen:
    """Spans begin at each half of a scale; those of which less than half is known are left out."""
    step = max(1, scale // 2)
    starts = np.arange(0, sums.shape[1] - 2 * scale, step)
    first = sums[:, starts + scale] - sums[:, starts]
    second = sums[:, starts + 2 * scale] - sums[:, starts + scale]
    full = 0.5 * scale * np.median(sums[0, 1:] - sums[0, :-1])
    kept = (first[0] > full) & (second[0] > full)
    if not kept.any():
        return Seen(scale, 0, 0.0, 0.0)
    first, second = first[:, kept], second[:, kept]
    apart = second[1] / second[0] - first[1] / first[0]
    sampling = first[2] / first[0] ** 2 + second[2] / second[0] ** 2
    pairs = max(1, round(kept.sum() * step / (2 * scale)))
    return Seen(scale, pairs, float((apart**2).mean()), float(sampling.mean()))


@lru_cache(maxsize=len(SCALES) * len(TAUS_TICKS))
def _shape(scale: int, tau: float) -> float:
    """What a process of variance 1 adds to the mean square of the differences."""
    if tau == 0.0:
        return 2.0 / scale
    mean = _mean_covariance(np.array([0.0, scale, 2.0 * scale]) / tau)
    return float(mean[0, 0] + mean[1, 1] - 2.0 * mean[0, 1])


def _likeliest(seen: Sequence[Seen], shape: Floats, by_pairs: bool) -> Floats:
    """The variances under which the differences are likeliest, were those of each scale by themselves: least squares
    whose weights come from the fit before. What few pairs show is taken to be somewhat more than they show."""
    sampling = np.array([found.sampling for found in seen])
    pairs = np.array([float(found.pairs) for found in seen])
    raised = 1.0 + (CAUTION_BY_PAIRS / pairs if by_pairs else CAUTION * np.sqrt(2.0 / pairs))
    square = np.array([found.square for found in seen]) * raised
    wanted = np.maximum(square - sampling, 0.0)
    expected = np.maximum(square, 1e-12)
    found = np.zeros(shape.shape[1])
    for _ in range(REWEIGHTED):
        trust = np.sqrt(pairs) / expected
        found = non_negative(shape * trust[:, None], wanted * trust)
        expected = np.maximum(shape @ found + sampling, 1e-12)
    return found


def non_negative(shape: Floats, wanted: Floats) -> Floats:
    """Least squares with non-negative coefficients (Lawson and Hanson 1974, algorithm NNLS)."""
    gram, right = shape.T @ shape, shape.T @ wanted
    found, is_free = np.zeros(right.size), np.zeros(right.size, dtype=bool)
    for _ in range(ROUNDS):
        slope = np.where(is_free, -np.inf, right - gram @ found)
        best = int(slope.argmax())
        if slope[best] <= TINY * max(1.0, float(np.abs(right).max())):
            break
        is_free[best] = True
        while is_free.any():
            free = np.flatnonzero(is_free)
            tried = np.zeros(right.size)
            tried[free] = np.linalg.lstsq(gram[np.ix_(free, free)], right[free], rcond=None)[0]
            below = free[tried[free] <= 0.0]
            if not below.size:
                found = tried
                break
            step = (found[below] / (found[below] - tried[below] + 1e-300)).min()
            found = found + step * (tried - found)
            is_free &= found > TINY * max(1e-12, float(found.max()))
            found[~is_free] = 0.0
    return found
