"""The last word on a winner: measured again against the default, with an interval. Pure.

Guarantee: BETTER only when the whole 95 % interval of the improvement lies above zero AND the winner held every
constraint in the fresh measurements. Runs go A B B A A B ..., so that a drift of the machine hits both alike
(counterbalanced pairs), and both runs of a pair replay the same requests. Where each change between the two costs more
time than there is, they go in blocks, A A B B B A: a steady drift still hits both alike, any other is not excluded, and
the result says so. The interval is Student's t on the logarithms of the paired ratios.

Interleaved pairs are looked at twice where there is time for more than were asked for: a difference that the first look
decides needs no more, and one that noise hides gets the rest. Each look takes half of the 5 % (Bonferroni), so that the
interval of the look that ended it keeps its 95 %. How many pairs each look has is fixed before the first is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from controlplane.contract.bodies.studies import StudyVerdict

DEFAULT, WINNER = "default", "winner"
LEAST_REPEATS = 2
ERROR = 0.05
"""Probability that the interval misses the truth, over all looks."""
MOST_TIMES = 4
"""So many times as many pairs as were asked for are measured at most."""

INTERLEAVED, BLOCKS = "interleaved", "blocks"
BLOCKS_CHANGES = 2
"""Changes between the arms of the blocks, once the outer arm runs."""


def changes_of(design: str, repeats: int) -> int:
    """How often the node goes from one arm to the other."""
    return repeats if design == INTERLEAVED else BLOCKS_CHANGES


def design_for(repeats: int, *, run_s: float, change_s: float, cheap_s: float, left_s: float) -> str:
    """Interleaved while a change is cheap, or while the time left pays for all of its changes; else blocks."""
    whole_s = 2 * repeats * run_s + (changes_of(INTERLEAVED, repeats) + 1) * change_s
    return INTERLEAVED if change_s <= cheap_s or whole_s <= left_s else BLOCKS


def blocks(repeats: int, outer: str) -> list[tuple[int, str]]:
    """(pair, arm) in the order of the runs: half of the arm `outer`, all of the other, the rest of `outer`."""
    inner = WINNER if outer == DEFAULT else DEFAULT
    first = (repeats + 1) // 2
    return [
        *((pair, outer) for pair in range(first)),
        *((pair, inner) for pair in range(repeats)),
        *((pair, outer) for pair in range(first, repeats)),
    ]


def order(repeats: int) -> list[tuple[int, str]]:
    """(pair, arm) in the order of the runs: each pair once in each arm, the first arm alternating."""
    runs: list[tuple[int, str]] = []
    for pair in range(repeats):
        arms = (DEFAULT, WINNER) if pair % 2 == 0 else (WINNER, DEFAULT)
        runs.extend((pair, arm) for arm in arms)
    return runs


@dataclass(frozen=True)
class Improvement:
    """1 - winner/default: the estimate and its 95 % interval, whichever of the `looks` it is of."""

    estimate: float
    low: float
    high: float
    repeats: int
    looks: int = 1

    @property
    def decided(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


def looks_at(wanted: int, most: int, design: str) -> tuple[int, ...]:
    """After how many pairs the result is looked at; the last is all of them."""
    return (wanted, most) if design == INTERLEAVED and most > wanted else (most,)


def improvement(default_s: Sequence[float], winner_s: Sequence[float], *, looks: int = 1) -> Improvement:
    """Paired objectives in seconds, at least two pairs. `looks`: how often the pairs are looked at in all.

    The estimate is 1 - exp(mean log ratio); the interval comes from Student's t with pairs - 1 degrees of freedom.
    """
    if len(default_s) != len(winner_s) or len(default_s) < LEAST_REPEATS:
        raise ValueError(f"an interval wants at least {LEAST_REPEATS} pairs, got {len(default_s)} and {len(winner_s)}")
    ratios = [math.log(winner / default) for default, winner in zip(default_s, winner_s, strict=True)]
    count = len(ratios)
    mean = math.fsum(ratios) / count
    variance = math.fsum((ratio - mean) ** 2 for ratio in ratios) / (count - 1)
    half = float(stats.t.ppf(1.0 - ERROR / looks / 2, count - 1)) * math.sqrt(variance / count)
    # Nothing is more than exp(50) times slower; beyond that the exponential would overflow.
    low, high = 1.0 - math.exp(min(mean + half, 50.0)), 1.0 - math.exp(mean - half)
    return Improvement(1.0 - math.exp(mean), low, high, count, looks)


def verdict(found: Improvement, violations: dict[str, float]) -> StudyVerdict:
    """`violations`: of the winner, over all its fresh runs together."""
    held = all(excess <= 0 for excess in violations.values())
    return StudyVerdict.BETTER if held and found.low > 0 else StudyVerdict.NOT_BETTER
