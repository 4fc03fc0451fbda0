"""The dispersion phi: how much more counts scatter than those of independent requests would, by block variance (pure).

Each tick has a score (exceedances observed less expected) and the variance it would have, were requests independent.
phi is the sum over blocks of ticks of the block's score squared, over the sum of its variances (block variance:
Kuensch, Annals of Statistics 17, 1989): the largest over several lengths of blocks, as noise may be slow, and at least
one. Evidence is tempered by it, see `exceedance`.

There are two estimators, because there are two kinds of past:

- `Dispersion` goes along with a judge that is written down after each tick: it keeps sums, never the ticks. What it
  watches lasts minutes, so blocks are short, and what few blocks say is shrunk towards a prior.
- `dispersion_of` has all ticks of a baseline before it, up to hours of them, so blocks are long. What it expects is
  fitted to the same ticks (a share for each load), which costs degrees of freedom; and a baseline that is too short for
  long blocks is followed by ticks that see noise slower than its own, so growth from block to block is carried on.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

BLOCK_TICKS = (1, 2, 4, 8, 16)
"""Block lengths, in ticks, of a judge; it wants `MIN_BLOCKS` of one."""
MIN_BLOCKS = 6
PRIOR_BLOCKS = 4.0

BASELINE_BLOCK_TICKS = (1, 3, 12, 60)
MIN_BASELINE_BLOCKS = 8
MINUTE_TICKS = 12
MOST_GROWTH = 4.0
SHORT_HISTORY_PHI = 2.0
"""Of a history too short to show slow noise; it fades as minutes of history come in."""


@dataclass
class Dispersion:
    """phi of the ticks so far: those before the next one, when it is read before `add`.

    phi is the largest over block lengths that have enough blocks, each shrunk towards `prior` by a few blocks' weight.

    `caution`: by so many of its own standard errors (of a variance from so many blocks) an estimate is raised, where
    counts come in bursts that few blocks have seen; phi is then never below `prior` either.
    """

    prior: float
    caution: float = 0.0
    score: list[float] = field(default_factory=lambda: [0.0] * len(BLOCK_TICKS))
    variance: list[float] = field(default_factory=lambda: [0.0] * len(BLOCK_TICKS))
    ticks: list[int] = field(default_factory=lambda: [0] * len(BLOCK_TICKS))
    blocks: list[int] = field(default_factory=lambda: [0] * len(BLOCK_TICKS))
    squares: list[float] = field(default_factory=lambda: [0.0] * len(BLOCK_TICKS))
    expected: list[float] = field(default_factory=lambda: [0.0] * len(BLOCK_TICKS))

    def add(self, score: float, variance_: float) -> None:
        if variance_ <= 0.0:
            return
        for place, length in enumerate(BLOCK_TICKS):
            self.score[place] += score
            self.variance[place] += variance_
            self.ticks[place] += 1
            if self.ticks[place] == length:
                self.blocks[place] += 1
                self.squares[place] += self.score[place] ** 2
                self.expected[place] += self.variance[place]
                self.score[place] = self.variance[place] = 0.0
                self.ticks[place] = 0

    @property
    def phi(self) -> float:
        found = [
            (blocks * squares / expected + PRIOR_BLOCKS * self.prior)
            / (blocks + PRIOR_BLOCKS)
            * (1.0 + self.caution * math.sqrt(2.0 / blocks))
            for blocks, squares, expected in zip(self.blocks, self.squares, self.expected, strict=True)
            if blocks >= MIN_BLOCKS
        ]
        return max(self.prior if self.caution else 1.0, max(found, default=self.prior))


def dispersion_of(score: NDArray[np.float64], variance: NDArray[np.float64], fitted: int) -> float:
    """phi of all ticks of a baseline, float64[ticks] in order of time; `fitted` shares were estimated from them.

    While the history is too short for the longest blocks, the growth from one length to the next is supposed to go on
    once more: noise that has not levelled off is slower than what was seen. A history too short for blocks of a minute
    keeps a part of `SHORT_HISTORY_PHI` besides.
    """
    ratios: list[float] = []
    for length in BASELINE_BLOCK_TICKS:
        blocks = len(score) // length
        expected = float(variance[: blocks * length].sum())
        if blocks < max(MIN_BASELINE_BLOCKS, fitted + 2) or expected <= 0.0:
            continue
        squares = float((score[: blocks * length].reshape(blocks, length).sum(axis=1) ** 2).sum())
        ratios.append(squares / expected * blocks / (blocks - fitted))
    phi = max([1.0, *ratios])
    if 2 <= len(ratios) < len(BASELINE_BLOCK_TICKS):
        phi *= min(max(ratios[-1] / max(ratios[-2], 1.0), 1.0), MOST_GROWTH)
    minutes = len(score) / MINUTE_TICKS
    return max(phi, 1.0 + (SHORT_HISTORY_PHI - 1.0) * max(0.0, 1.0 - minutes / MIN_BASELINE_BLOCKS))
