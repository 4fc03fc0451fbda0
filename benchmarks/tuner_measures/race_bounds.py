"""The bounds of the paired sequential test (`tuner/study/paired_test.py`), found anew.

    python -m benchmarks.tuner_measures.race_bounds          # --paths 1000000 --seed 1 as in the table

Paths of standard normal differences; at each look the bound of |t| is the value that lets through just what the
spending plan grants to both sides, of the paths that no earlier look has ended. Student's t depends on no scale, so the
bounds hold for any noise.
"""

import argparse

import numpy as np

from tuner.study.paired_test import ALPHA, EARLY_SPENT, MOST_PAIRS


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--paths", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    random = np.random.default_rng(chosen.seed)
    total = np.zeros(chosen.paths)
    squares = np.zeros(chosen.paths)
    left = np.ones(chosen.paths, dtype=bool)
    spent = 0.0
    for pairs in range(1, MOST_PAIRS + 1):
        value = random.standard_normal(chosen.paths)
        total += value
        squares += value**2
        if pairs < 2:
            continue
        deviation = np.sqrt((squares - total**2 / pairs) / (pairs - 1))
        size = np.where(left, np.abs(total) / (deviation * np.sqrt(pairs)), 0.0)
        last = _bound(size, 2 * ALPHA - spent)
        early = EARLY_SPENT.get(pairs)
        if early is None:
            print(f"    {pairs}: (inf, {last:.3f}),")
            continue
        bound = _bound(size, 2 * early - spent)
        print(f"    {pairs}: ({bound:.3f}, {last:.3f}),")
        spent = 2 * early
        left &= size < bound


def _bound(size: "np.ndarray[tuple[int], np.dtype[np.float64]]", share: float) -> float:
    """The size that this share of all paths exceeds."""
    count = round(share * len(size))
    return float(np.partition(size, -count)[-count])


if __name__ == "__main__":
    main()
