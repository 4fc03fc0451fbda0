"""Two arms compared stratum by stratum, each with its own past: a line of differences of scores. Pure.

Within a stratum (requests that are alike: a prompt bucket, a cache class) the difference of the arms' mean scores at
one tick has a known sampling variance, and what both arms share at that moment cancels. Where the arms differed before
anything was changed (other hardware, other neighbours), the past's difference is the stratum's offset. Offsets
are shrunk to their common mean by what they differ beyond chance (R. DerSimonian and N. Laird, Controlled Clinical
Trials 7, 1986), so that a stratum that was hardly ever seen has the common one; what is not known is a variance.

The line weighs strata by how much they tell. Without a second arm the line is the first arm's mean score itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Differences:
    """value: float64[ticks, strata], 0 where there is none; weight: the inverse of its sampling variance, for scores of
    variance 1."""

    value: Floats
    weight: Floats

    @classmethod
    def of(cls, counts: Floats, scores: Floats, other_counts: Floats, other_scores: Floats) -> "Differences":
        """Counts and sums of scores of an arm and of the other, float64[ticks, strata]."""
        both = (counts > 0) & (other_counts > 0)
        mine, theirs = np.where(both, counts, 1.0), np.where(both, other_counts, 1.0)
        value = np.where(both, scores / mine - other_scores / theirs, 0.0)
        return cls(value, np.where(both, mine * theirs / (mine + theirs), 0.0))

    @classmethod
    def alone(cls, counts: Floats, scores: Floats) -> "Differences":
        return cls(np.where(counts > 0, scores / np.where(counts > 0, counts, 1.0), 0.0), counts)


@dataclass(frozen=True)
class Offsets:
    """By stratum, float64[strata]: the difference that was usual, the variance of what is not known of it beside the
    others', and the share of the past's weight."""

    value: Floats
    variance: Floats
    share: Floats

    @classmethod
    def learn(cls, past: Differences) -> "Offsets":
        weight = past.weight.sum(axis=0)
        total = max(float(weight.sum()), 1e-12)
        found = (past.weight * past.value).sum(axis=0) / np.where(weight > 0.0, weight, 1.0)
        common = float(weight @ found) / total
        scatter = float(weight @ (found - common) ** 2) - (np.count_nonzero(weight) - 1)
        divisor = total - float(weight @ weight) / total
        between = max(0.0, scatter / divisor) if divisor > 0.0 else 0.0
        trust = between * weight / (1.0 + between * weight)
        return cls(common + trust * (found - common), between / (1.0 + between * weight), weight / total)

    def line(self, seen: Differences) -> tuple[Floats, Floats]:
        """The differences less the offsets, all strata together: value (nan where there was nothing) and sampling
        variance, float64[ticks] each."""
        weight = seen.weight.sum(axis=1)
        some = weight > 0.0
        value = (seen.weight * (seen.value - self.value)).sum(axis=1) / np.where(some, weight, 1.0)
        return np.where(some, value, np.nan), np.where(some, 1.0 / np.where(some, weight, 1.0), 1.0)

    def unshared(self, weight: Floats) -> float:
        """The variance that the offsets add where strata have another share of the weight (float64[strata]) than in the
        past: with the same shares their errors are those of the line's own level."""
        total = float(weight.sum())
        return float((weight / total - self.share) ** 2 @ self.variance) if total > 0.0 else 0.0
