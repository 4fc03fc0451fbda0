"""A confidence sequence for a quantile: an interval that may be looked at after every request (pure).

With k of n values at or below x, the chance of k under "x is the p-quantile" is compared with a beta mixture over what
else its share could be, M = B(a + k, b + n - k) / B(a, b) / (p^k (1 - p)^(n - k)). M is a nonnegative martingale where
x is the quantile, so it ever reaches 1 / alpha with the chance alpha at most (J. Ville, 1939); the interval holds the x
at which it has not. The mixture is that of S. Howard and A. Ramdas, "Sequential estimation of quantiles",
Bernoulli 28 (2022), tuned to `TUNED_FOR` values. Requests that depend on each other are allowed for by `phi`, by which
the evidence is divided, see `dispersion`.
"""

import math
from collections.abc import Callable
from math import lgamma

from controlplane.evidence.order_statistics import Estimate
from controlplane.evidence.sketch import Sketch

TUNED_FOR = 1000.0


def anytime_quantile(sketch: Sketch, q: float, phi: float = 1.0, level: float = 0.95) -> Estimate | None:
    """None where there are too few values for an end on either side. q: within 0 and 1, both excluded."""
    count = sketch.count
    if not count:
        return None
    alpha = 1.0 - level
    tuned = q * (1.0 - q) * TUNED_FOR / (2.0 * math.log(1.0 / alpha) + math.log(2.0 * math.log(1.0 / alpha)) + 1.0)
    a, b = tuned / (1.0 - q), tuned / q
    rest = lgamma(a + b) - lgamma(a) - lgamma(b) - lgamma(a + b + count)

    def rejected(k: int) -> bool:
        log_m = lgamma(a + k) + lgamma(b + count - k) + rest - k * math.log(q) - (count - k) * math.log1p(-q)
        return log_m >= phi * math.log(1.0 / alpha)

    middle = round(q * count)
    low, high = _first_rejected(middle, 0, rejected), _first_rejected(middle, count, rejected)
    if low is None or high is None or rejected(middle):
        return None
    wide = 1.0 + sketch.relative_error
    # With `low` values at or below x it is rejected, so the quantile lies above the value at that place, from 0.
    below, value, above = sketch.quantiles([low / max(count - 1, 1), q, min(high, count - 1) / max(count - 1, 1)])
    return Estimate(value, min(below / wide, value), max(above * wide, value))


def anytime_ratio(before: Sketch, during: Sketch, q: float, phi: float = 1.0, level: float = 0.95) -> Estimate | None:
    """By what factor the quantile grew; each side errs with half of the rest, so that both hold at once."""
    then, now = (anytime_quantile(side, q, phi, (1.0 + level) / 2.0) for side in (before, during))
    if then is None or now is None or then.low <= 0.0:
        return None
    return Estimate(now.value / then.value, now.low / then.high, now.high / then.low)


def _first_rejected(start: int, end: int, rejected: Callable[[int], bool]) -> int | None:
    """The count nearest to `start` on the way to `end` that is rejected; M grows on that way, so it is halved."""
    if not rejected(end):
        return None
    inside, outside = start, end
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        inside, outside = (inside, middle) if rejected(middle) else (middle, outside)
    return outside
