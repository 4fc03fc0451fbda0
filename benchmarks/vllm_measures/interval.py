"""A mean ratio with its 95 % interval. Pure.

The ratios of interleaved rounds are taken as independent; the interval is Student's on their logarithms.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t, 0.975, 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2)."""


@dataclass(frozen=True)
class Change:
    """Geometric mean of ratios, less one; `low` to `high` holds the true one with 95 %. -0.01 is a loss of 1 %."""

    mean: float
    low: float
    high: float
    rounds: int

    @property
    def told(self) -> str:
        if self.rounds < 2:
            return f"{100 * self.mean:+.2f} %"
        return f"{100 * self.mean:+.2f} % ({100 * self.low:+.2f} to {100 * self.high:+.2f})"


def change(numerators: Sequence[float], denominators: Sequence[float]) -> Change:
    """Round by round. Raises `ValueError` when the rounds differ in number or there are none."""
    if len(numerators) != len(denominators) or not numerators:
        raise ValueError(f"{len(numerators)} rounds against {len(denominators)}")
    logs = [math.log(above / below) for above, below in zip(numerators, denominators, strict=True)]
    mean = statistics.fmean(logs)
    if len(logs) == 1:
        return Change(math.expm1(mean), -1.0, math.inf, 1)
    # Past 30 the table's last value is a little wider than need be.
    half = _T_975[min(len(logs) - 2, len(_T_975) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return Change(math.expm1(mean), math.expm1(mean - half), math.expm1(mean + half), len(logs))
