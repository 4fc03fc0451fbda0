"""The range of what a step may cost: it holds the truth, and is wide only where rows do not tell."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from tuner.twin.costs.cost_range import FARTHEST, cost_range
from tuner.twin.costs.nonnegative_fit import Row, fit
from tuner.twin.costs.step_terms import StepCost, Terms, of_piece, summed

TRUTH = StepCost((0.006, 6e-5, 2e-4, 2e-4, 1.5e-6, 4e-8))
NOISE = 0.02


def windows(pieces: Sequence[int], seed: int, count: int = 80, paced: bool = False) -> list[Row]:
    """Of a second each: decodes, and of prompts' pieces as many as come, each of one of these sizes."""
    random, found = np.random.default_rng(seed), []
    for number in range(count):
        terms = [_decodes(int(random.integers(1, 12)), float(random.uniform(100, 900))) for _ in range(60)]
        for _ in range(int(random.integers(0, 60))):
            piece, before = int(random.choice(pieces)), 16.0 * float(random.integers(0, 40))
            terms.append((1.0, piece, 1.0, 0.0, before + piece, piece * (before + piece / 2)))
        whole = summed(terms)
        pace = math.exp(0.2 * math.sin(number // 6)) if paced else 1.0
        found.append(Row(whole, pace * TRUTH.seconds(whole) * float(random.lognormal(0.0, NOISE)), number // 6))
    return found


def _decodes(rows: int, context: float) -> Terms:
    return (1.0, rows, 0.0, rows, rows * context, 0.0)


def told(rows: Sequence[Row], tokens: int) -> tuple[float, float]:
    """Ends for a step with one piece, in times of what it truly costs."""
    step = of_piece(tokens)
    low, high = cost_range(rows, fit(rows).cost, step)
    return low.seconds(step) / TRUTH.seconds(step), high.seconds(step) / TRUTH.seconds(step)


@pytest.mark.parametrize("paced", [False, True])
@pytest.mark.parametrize(
    ("pieces", "asked", "least", "most"),
    [([16], 256, 2.0, 8.0), ([16], 16, 1.0, 1.5), ([16, 128, 256], 256, 1.0, 1.5), ([16, 128, 256], 16, 1.0, 1.5)],
)
def test_it_holds_the_truth_and_is_wide_where_pieces_were_never_so_large(
    pieces: list[int], asked: int, least: float, most: float, paced: bool
) -> None:
    """Of 16 draws 95 % are to hold it: 15, and hardly less than 13."""
    found = [told(windows(pieces, seed, paced=paced), asked) for seed in range(16)]
    assert sum(low <= 1.0 <= high for low, high in found) >= 13
    assert least < float(np.median([high / low for low, high in found])) < most


def test_its_ends_explain_the_rows_nearly_as_well() -> None:
    rows = windows([16], 9)
    found = fit(rows).cost
    step = of_piece(256)

    def off(cost: StepCost) -> float:
        """Each six windows have a pace of their own."""
        logs = np.array([math.log(cost.seconds(row.terms) / row.seconds) for row in rows])
        stretches = np.array([row.stretch for row in rows])
        alike = [logs[stretches == one] for one in np.unique(stretches)]
        return float(np.std(np.concatenate([one - one.mean() for one in alike])))

    assert all(off(cost) < 1.15 * off(found) for cost in cost_range(rows, found, step))


def test_what_no_row_tells_is_as_far_as_it_looks() -> None:
    rows = [Row(_decodes(4, 200.0 + place), 0.01) for place in range(20)]
    found, step = fit(rows).cost, of_piece(500)
    low, high = (cost.seconds(step) for cost in cost_range(rows, found, step))
    assert high == pytest.approx(FARTHEST * found.seconds(step), rel=0.01) and low < found.seconds(step)
