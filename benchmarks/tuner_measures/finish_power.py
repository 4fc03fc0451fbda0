"""What the paired test of a study's finish says: of equal arms, and of a true gain, after how many pairs.

Rivals take the same log ratios: Student's interval on three pairs; on four and then sixteen, each at half the error (as
studies did before); and an e-process, the mixture of Student's likelihood ratios over a normal effect of scale 1
(Wang and Ramdas 2024), whose level needs no last look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from benchmarks.tuner_measures.measured_surface import EMBEDDED, LIMITS, OBJECTIVE, read
from tuner.search.surrogate import Array
from tuner.study.paired_test import ALPHA, is_hopeless, look
from tuner.study.remeasure import USUAL_PAIRS

Test = Callable[[Sequence[float]], tuple[bool, int]]
"""Of log ratios as they come: whether the candidate is called better, and after how many pairs that was settled."""
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]
"""Log ratios of equal arms: repeats x pairs."""
GAINS = (0.0, 0.05, 0.10, 0.15, 0.30, 0.50)


def sequential(ratios: Sequence[float]) -> tuple[bool, int]:
    for pairs in range(3, USUAL_PAIRS + 1):
        found = look(ratios[:pairs], USUAL_PAIRS)
        if found.decided or is_hopeless(ratios[:pairs]):
            return found.low > 0, pairs
    return False, USUAL_PAIRS


def e_process(ratios: Sequence[float]) -> tuple[bool, int]:
    for pairs in range(2, USUAL_PAIRS + 1):
        values = np.array(ratios[:pairs])
        t = float(values.mean() / (values.std(ddof=1) / math.sqrt(pairs)))
        free = pairs - 1
        ratio = (1 + t * t / free) / (1 + t * t / (free * (1 + pairs)))
        # One-sided: the half of the mixture on the side of a gain.
        value = ratio ** (pairs / 2) / math.sqrt(1 + pairs) * 2 * float(stats.norm.cdf(-t))
        if value >= 1 / ALPHA:
            return True, pairs
    return False, USUAL_PAIRS


def student(pairs: Sequence[int]) -> Test:
    def test(ratios: Sequence[float]) -> tuple[bool, int]:
        for count in pairs:
            values = np.array(ratios[:count])
            bound = stats.t.ppf(1 - 0.025 / len(pairs), count - 1) * values.std(ddof=1) / math.sqrt(count)
            if abs(values.mean()) > bound:
                return bool(values.mean() < 0), count
        return False, pairs[-1]

    return test


TESTS: dict[str, Test] = {
    "paired sequential test, 12 pairs": sequential,
    "e-process, 12 pairs": e_process,
    "Student, 3 pairs": student([3]),
    "Student, 4 then 16 pairs": student([4, 16]),
}


def normal(noise: float) -> Draw:
    """Log ratios of pairs of runs whose noise is normal."""
    return lambda random, shape: noise * math.sqrt(2) * random.standard_normal(shape)


def replayed(figure: str) -> Draw:
    """Of pairs of runs that each had the noise of one that was measured on the real engine."""
    runs = read(EMBEDDED).noise[:, (OBJECTIVE, *LIMITS).index(figure)]
    return lambda random, shape: np.diff(random.choice(runs, (2, *shape)), axis=0)[0]


def stalling(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Of runs with 6 % of noise of which one in twenty takes two to eight times as long."""
    arms = 0.06 * random.standard_normal((2, *shape))
    arms += (random.random((2, *shape)) < 0.05) * random.uniform(math.log(2), math.log(8), (2, *shape))
    found: Array = arms[1] - arms[0]
    return found


NOISES: dict[str, Draw] = {
    "normal, 10 % a run": normal(0.10),
    "normal, 5 % a run": normal(0.05),
    "as measured, e2e p50": replayed("e2e:0.5"),
    "as measured, ttft p95": replayed("ttft:0.95"),
    "6 % a run, one in twenty stalls": stalling,
}


def power(repeats: int, noise: str, seed: int) -> None:
    """Called better among `repeats`, by true gain; in brackets the mean number of pairs."""
    print(f"\nnoise {noise}, {repeats} repeats, seed {seed}: called better (mean pairs)\n")
    print(f"| | {' | '.join(f'{gain:.0%} better' for gain in GAINS)} |")
    print("|---" * (len(GAINS) + 1) + "|")
    for name, test in TESTS.items():
        random = np.random.default_rng(seed)
        cells = []
        for gain in GAINS:
            drawn = math.log(1 - gain) + NOISES[noise](random, (repeats, 16))
            ends = [test(ratios) for ratios in drawn.tolist()]
            cells.append(f"{np.mean([better for better, _ in ends]):.1%} ({np.mean([pairs for _, pairs in ends]):.1f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
