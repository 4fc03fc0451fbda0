"""A Gaussian process over a study's few runs, which is told how noisy they are. Pure.

Guarantee: every run counts, repeats of a configuration too; what is answered is the expected figure of a configuration,
not one run's; equal runs give equal answers. Length scales, spread and noise are not fitted to a dozen points: they are
averaged over, each weighted by how well it explains the runs (as Snoek et al. 2012, section 3.2, with draws from the
prior in place of slice sampling). Kernel: Matern 5/2 with a length scale a knob, most of it a sum over the knobs: what
a knob does to the logarithm of a latency is mostly the same whatever the others are, and a sum learns that from a few
runs (Duvenaud et al. 2011). Places of ordered knobs lie in [0, 1], categories are one apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]

DRAWS, KEPT = 256, 32
"""Hyperparameters drawn from their prior, and how many of the weightiest answer."""
LENGTH, LENGTH_SD = 0.7, 0.6
SPREAD, SPREAD_SD = 0.5, 1.0
NOISE_SD = 0.35
"""Medians and log standard deviations of the priors: a knob matters over most of its range, figures vary by a factor of
1.6 about their mean (or by far less: then nothing matters), and the noise told is right within a half."""
ALONE = 0.8
"""Share of the variance that is each knob's own; the rest is what they do together."""
_JITTER = 1e-8


@dataclass(frozen=True)
class Posterior:
    """What is believed of the points asked for: mean and standard deviation of the value without noise.

    `noise`: the standard deviation of one run.
    """

    mean: Array
    sd: Array
    noise: float

    def log_below(self, limit: float = 0.0) -> Array:
        """The logarithm of the probability that the value is at most `limit`."""
        found: Array = stats.norm.logcdf((limit - self.mean) / self.sd)
        return found

    def improvement(self, reference: float) -> Array:
        """The expected amount by which the value lies below `reference` (expected improvement)."""
        z = (reference - self.mean) / self.sd
        found: Array = self.sd * (z * stats.norm.cdf(z) + stats.norm.pdf(z))
        return found


class Surrogate:
    """Fitted to runs: `places` (runs x knobs), `values` (one a run), and the noise that one run is told to have."""

    def __init__(self, places: Array, values: Array, *, noise: float, ordered: NDArray[np.bool_]) -> None:
        self._places, self._values, self._ordered = places, values, ordered
        lengths, spreads, noises = _draws(places.shape[1], noise)
        gram = _kernel(_gaps(places, places, ordered), lengths, spreads)
        gram += (noises**2)[:, None, None] * np.eye(len(values)) + _JITTER * np.eye(len(values))
        roots = np.linalg.cholesky(gram)
        ones = np.ones(len(values))
        solved = np.linalg.solve(gram, np.stack([values, ones], axis=1)[None])
        # Of the mean nothing is known beforehand (a flat prior, generalised least squares).
        total = np.einsum("i,kij->kj", ones, solved)
        means = total[:, 0] / total[:, 1]
        weights = solved[..., 0] - means[:, None] * solved[..., 1]
        fit = -0.5 * np.einsum("ki,ki->k", values - means[:, None], weights) - 0.5 * np.log(total[:, 1])
        fit -= np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        self.evidence = float(np.log(np.mean(np.exp(fit - fit.max()))) + fit.max())
        """The logarithm of the density of these values, hyperparameters averaged over."""
        best = np.argsort(-fit)[:KEPT]
        share = np.exp(fit[best] - fit[best[0]])
        self._share = share / share.sum()
        self._lengths, self._spreads, self._means = lengths[best], spreads[best], means[best]
        self._weights, self._gram, self._total = weights[best], gram[best], total[best, 1]
        self._solved_ones = solved[best, :, 1]
        self.noise = float(np.exp(np.sum(self._share * np.log(noises[best]))))

    def at(self, places: Array) -> Posterior:
        """The belief about each of these places, all hyperparameters together."""
        across = _kernel(_gaps(places, self._places, self._ordered), self._lengths, self._spreads)
        means = self._means[:, None] + np.einsum("kqi,ki->kq", across, self._weights)
        solved = np.linalg.solve(self._gram, across.transpose(0, 2, 1))
        known = np.einsum("kqi,kiq->kq", across, solved)
        missing = 1.0 - np.einsum("kqi,ki->kq", across, self._solved_ones)
        variances = self._spreads[:, None] ** 2 - known + missing**2 / self._total[:, None]
        mean = np.einsum("k,kq->q", self._share, means)
        second = np.einsum("k,kq->q", self._share, np.maximum(variances, _JITTER) + means**2)
        return Posterior(mean, np.sqrt(np.maximum(second - mean**2, _JITTER)), self.noise)

    def draw(self, places: Array, random: np.random.Generator) -> Array:
        """The values of one function, drawn from the belief, at these places together."""
        one = slice(found := int(random.choice(len(self._share), p=self._share)), found + 1)
        lengths, spreads = self._lengths[one], self._spreads[one]
        across = _kernel(_gaps(places, self._places, self._ordered), lengths, spreads)[0]
        missing = 1.0 - across @ self._solved_ones[found]
        covariance = _kernel(_gaps(places, places, self._ordered), lengths, spreads)[0]
        covariance -= across @ np.linalg.solve(self._gram[found], across.T)
        covariance += np.outer(missing, missing) / self._total[found]
        # By eigenvalues: points that are alike leave nothing between them, and rounding makes it negative.
        scales, axes = np.linalg.eigh(covariance)
        normal = np.sqrt(np.maximum(scales, 0.0)) * random.standard_normal(len(places))
        drawn: Array = self._means[found] + across @ self._weights[found] + axes @ normal
        return drawn


def _draws(knobs: int, noise: float) -> tuple[Array, Array, Array]:
    """Length scales (draws x knobs), spreads and noises, spread evenly over their prior (a Sobol sequence)."""
    uniform = stats.qmc.Sobol(knobs + 2, scramble=True, rng=1).random(DRAWS)
    normal = stats.norm.ppf(np.clip(uniform, 1e-6, 1 - 1e-6))
    lengths = LENGTH * np.exp(LENGTH_SD * normal[:, :knobs])
    return lengths, SPREAD * np.exp(SPREAD_SD * normal[:, knobs]), noise * np.exp(NOISE_SD * normal[:, knobs + 1])


def _gaps(first: Array, second: Array, ordered: NDArray[np.bool_]) -> Array:
    """Squared distances, knobs apart: (first, second, knobs)."""
    between = first[:, None, :] - second[None, :, :]
    found: Array = np.where(ordered, between**2, (between != 0).astype(float))
    return found


def _kernel(gaps: Array, lengths: Array, spreads: Array) -> Array:
    """For each draw: (draws, first, second)."""
    alone = np.zeros((len(lengths), *gaps.shape[:2]))
    together = np.zeros_like(alone)
    for knob, own in enumerate(lengths.T):
        squared = gaps[:, :, knob] / own[:, None, None] ** 2
        alone += _matern(squared)
        together += squared
    shares = ALONE / lengths.shape[1] * alone + (1.0 - ALONE) * _matern(together)
    found: Array = spreads[:, None, None] ** 2 * shares
    return found


def _matern(squared: Array) -> Array:
    """Matern 5/2 by squared distance in length scales."""
    distance = np.sqrt(5.0 * squared)
    found: Array = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    return found
