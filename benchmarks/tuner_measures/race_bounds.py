"""The bounds of the paired sequential test (`tuner/study/paired_test.py`), found anew.

    python -m benchmarks.tuner_measures.race_bounds          # --paths 1000000 --seed 1 as in the table

Paths of standard normal differences; at each look the bound of |t| is the value that lets through just what the
spending plan grants to both sides, of the paths that no earlier look has ended. Student's t, fences included, depends
on no scale, so the bounds hold for any noise.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

from tuner.study.paired_test import ALPHA, EARLY_SPENT, FENCE, FENCED_FROM, FEWEST_PAIRS, MOST_PAIRS, TO_SD

Array = NDArray[np.float64]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--paths", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    random = np.random.default_rng(chosen.seed)
    drawn = random.standard_normal((chosen.paths, MOST_PAIRS))
    left = np.ones(chosen.paths, dtype=bool)
    spent = 0.0
    for pairs in range(FEWEST_PAIRS, MOST_PAIRS + 1):
        values = _fenced(drawn[:, :pairs])
        deviation = values.std(axis=1, ddof=1)
        size = np.where(left, np.abs(values.mean(axis=1)) / (deviation / np.sqrt(pairs)), 0.0)
        last = _bound(size, 2 * ALPHA - spent)
        early = EARLY_SPENT.get(pairs)
        if early is None:
            print(f"    {pairs}: (inf, {last:.3f}),")
            continue
        bound = _bound(size, 2 * early - spent)
        print(f"    {pairs}: ({bound:.3f}, {last:.3f}),")
        spent = 2 * early
        left &= size < bound


def _fenced(values: Array) -> Array:
    """As `paired_test.fenced`, of many paths together."""
    if values.shape[1] < FENCED_FROM:
        return values
    middle = np.median(values, axis=1, keepdims=True)
    far = FENCE * TO_SD * np.median(np.abs(values - middle), axis=1, keepdims=True)
    found: Array = np.clip(values, middle - far, middle + far)
    return found


def _bound(size: Array, share: float) -> float:
    """The size that this share of all paths exceeds."""
    count = round(share * len(size))
    return float(np.partition(size, -count)[-count])


if __name__ == "__main__":
    main()
