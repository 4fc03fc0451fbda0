"""Whether one traffic's values are still as another's were: a two-sample score with an interval. Pure.

The score is Cliff's delta (N. Cliff, Psychol. Bull. 114, 1993): how much likelier a value of now is above one of then
than below it, -1 to 1; half of 1 plus it is the area under the ROC curve. It is of ranks: a few huge prompts move it
little, and no unit does.

Requests that come together are alike, so the interval is of a bootstrap of contiguous blocks of them (H. Kuensch, Ann.
Stat. 17, 1989), each side by itself. It holds for all values that are asked about together (Bonferroni). What has
drifted is what lies beyond `MATERIAL` with its whole interval: traffic of one source differs a little from hour to
hour, and a study's choice stands that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MATERIAL = 0.147
"""A small effect (J. Romano et al., Florida Association of Institutional Research, 2006): of gaps between arrivals at
random it is a rate a third higher."""
BLOCKS = 20
FEWEST_VALUES = 200
RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Shift:
    """Of one kind of value: the score, and the ends of its interval."""

    score: float
    low: float
    high: float

    @property
    def drifted(self) -> bool:
        return max(self.low, -self.high) > MATERIAL


def shifts(then: Mapping[str, Sequence[float]], now: Mapping[str, Sequence[float]], seed: int = 0) -> dict[str, Shift]:
    """By name, of names that both have; each value in order of arrival, `FEWEST_VALUES` a side at least."""
    random = np.random.default_rng(seed)
    drawn = [random.multinomial(BLOCKS, [1 / BLOCKS] * BLOCKS, RESAMPLES).astype(float) for _ in range(2)]
    tail = 50 * (1 - LEVEL) / len(then)
    found = {}
    for name, values in then.items():
        wins, pairs = _blockwise(np.asarray(values, float), np.asarray(now[name], float))
        won, compared = (((drawn[0] @ each) * drawn[1]).sum(axis=1) for each in (wins, pairs))
        scores = won / compared
        low, high = np.percentile(scores, [tail, 100 - tail])
        score = float(wins.sum() / pairs.sum())
        found[name] = Shift(score, float(min(low, score)), float(max(high, score)))
    return found


def _blockwise(then: NDArray[np.float64], now: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each two blocks: pairs in which now's value is above less those in which it is below; and all pairs."""
    mine, theirs = np.array_split(then, BLOCKS), np.array_split(now, BLOCKS)
    sizes = np.array([other.size for other in theirs])
    begins = np.cumsum(sizes) - sizes
    wins, pairs = np.empty((BLOCKS, BLOCKS)), np.empty((BLOCKS, BLOCKS))
    for row, one in enumerate(map(np.sort, mine)):
        below, up_to = (np.searchsorted(one, now, side=side) for side in ("left", "right"))
        pairs[row] = one.size * sizes
        wins[row] = np.add.reduceat(below + up_to, begins) - pairs[row]
    return wins, pairs
