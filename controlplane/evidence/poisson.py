"""The interval of a Poisson mean from one count (Garwood, "Fiducial limits for the Poisson distribution", 1936)."""

import math

BISECTIONS = 100


def interval(count: int, level: float = 0.95) -> tuple[float, float]:
    """Lower and upper end, exact."""
    outside = (1.0 - level) / 2.0
    return (0.0 if count == 0 else _mean_where(1.0 - outside, count - 1)), _mean_where(outside, count)


def upper(count: int, level: float = 0.95) -> float:
    """The mean is below this, at the level: one-sided."""
    return _mean_where(1.0 - level, count)


def _mean_where(share: float, count: int) -> float:
    """The mean under which at most `count` are seen with this probability."""
    low, high = 1e-9, 10.0 * (count + 10)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _at_most(count, middle) > share else (low, middle)
    return low


def _at_most(count: int, mean: float) -> float:
    return sum(math.exp(-mean + i * math.log(mean) - math.lgamma(i + 1)) for i in range(count + 1))
