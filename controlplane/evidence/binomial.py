"""One binomial count: what share it may stand for (Wilson), and how it compares with a share that is given (pure).

All count requests as independent, which those of one moment are not: a likelihood ratio and Wilson's bound are
tempered by whoever asks (see `dispersion`), Chernoff's is read as a lower bound of the false-alarm probability.
"""

import math

Z_95, Z_99 = 1.645, 2.326
"""Normal quantiles of one-sided bounds."""


def wilson_upper(above: float, count: float, z: float) -> float:
    """Wilson's score bound: E. B. Wilson, JASA 22 (1927), the upper root of (p - k/n)^2 = z^2 p (1 - p) / n."""
    share, spread = above / count, z * z / count
    root = math.sqrt(spread * (share * (1.0 - share) + spread / 4.0))
    return min((share + spread / 2.0 + root) / (1.0 + spread), 1.0)


def log_likelihood_ratio(above: int, count: int, null: float, alternative: float) -> float:
    """ln of the likelihood of the share `alternative` over that of `null`, above 0 and below 1: an e-value of `null`,
    and where the alternative lies above it, of every smaller share too."""
    found = above * math.log(alternative / null)
    return found if above == count else found + (count - above) * math.log((1.0 - alternative) / (1.0 - null))


def tail_bound(above: int, count: int, share: float) -> float:
    """An upper bound of P(Binomial(count, share) >= above): Chernoff, exp(-count * KL(above/count, share)).

    Hoeffding, "Probability inequalities for sums of bounded random variables", 1963, theorem 1.
    """
    observed = above / count
    return 1.0 if observed <= share else math.exp(-log_likelihood_ratio(above, count, share, observed))
