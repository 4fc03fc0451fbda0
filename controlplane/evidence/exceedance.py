"""Two-sample evidence from counts above an edge (pure): one e-value per stratum, tempered, anytime-valid.

Of n_A control and n_B canary values, K_A and K_B lie above an edge. Given both margins (n_A, n_B and K = K_A + K_B),
and equal exceedance rates, K_B is hypergeometric, whatever that rate is and however it moves with the load (Fisher
1935); under odds ratio psi it is Fisher's noncentral hypergeometric. So

    e = psi ** K_B / sum over j of h(j) * psi ** j,        h: hypergeometric(n_A + n_B, n_B, K)

has mean one under the null, at most one under the composite null on its side (the noncentral hypergeometric is
stochastically monotone in psi, and e is monotone in K_B), and products over separate ticks and strata keep that. The
denominator is at most the binomial one, (1 - rho + rho * psi) ** K with rho = n_B / (n_A + n_B) (Hoeffding 1963,
theorem 4): that bound is the conditional-binomial e-process of Lindon and Malek (2022), used here for large K only.
The exact form gains most at the median, where half of the values lie above the edge: the binomial variance is
twice the true one there.

Tempering: e ** (1 / phi) for phi >= 1 known beforehand keeps the mean at most one (Jensen). phi is the `dispersion` of
the counts: requests in one engine are not independent.
"""

import math

import numpy as np
from numpy.typing import NDArray

from controlplane.evidence.log_factorials import log_factorials

Floats = NDArray[np.float64]

EXACT_LIMIT = 4000
"""Above this many exceedances in one count the closed-form bound replaces the exact denominator."""


def log_e(k_b: int, k: int, n_a: int, n_b: int, log_odds: Floats) -> Floats:
    """ln of the e-value for each alternative log odds ratio; zeros where the margins leave nothing to learn.

    k_b of k exceedances fell into the canary's n_b values, the rest into the control's n_a.
    """
    low, high = max(0, k - n_a), min(k, n_b)
    if low >= high:
        return np.zeros_like(log_odds)
    if high - low > EXACT_LIMIT:
        rho = n_b / (n_a + n_b)
        bound: Floats = k_b * log_odds - k * np.log1p(rho * np.expm1(log_odds))
        return bound
    table = log_factorials(n_a + n_b)
    j = np.arange(low, high + 1)
    weight = -(table[j] + table[n_b - j] + table[k - j] + table[n_a - k + j])
    weight -= weight.max()
    weight -= math.log(float(np.exp(weight).sum()))
    terms = weight[None, :] + log_odds[:, None] * j[None, :]
    top = terms.max(axis=1)
    value: Floats = k_b * log_odds - (top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))
    return value


def noncentral(k: int, n_a: int, n_b: int, odds: float) -> tuple[float, float]:
    """Approximate mean and variance of Fisher's noncentral hypergeometric (Cornfield 1956); exact for odds 1."""
    n = n_a + n_b
    if n < 2 or not 0 < k < n or n_a == 0 or n_b == 0:
        return float(k if n_a == 0 else 0 if n_b == 0 else k * n_b / n), 0.0
    if abs(odds - 1.0) < 1e-9:
        return k * n_b / n, k * (n_a / n) * (n_b / n) * (n - k) / (n - 1)
    # mean * (n_a - k + mean) = odds * (n_b - mean) * (k - mean)
    c2, c1, c0 = 1.0 - odds, (n_a - k) + odds * (n_b + k), -odds * n_b * k
    root = math.sqrt(max(c1 * c1 - 4.0 * c2 * c0, 0.0))
    mean = -2.0 * c0 / (c1 + root)
    mean = min(max(mean, max(0.0, k - n_a) + 1e-6), min(n_b, k) - 1e-6)
    cells = (mean, n_b - mean, k - mean, n_a - k + mean)
    return mean, n / (n - 1) / sum(1.0 / max(cell, 1e-9) for cell in cells)


def log_mean_exp(values: Floats) -> float:
    """ln of the mean of exp(values): the mixture of e-processes, itself one."""
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).mean()))
