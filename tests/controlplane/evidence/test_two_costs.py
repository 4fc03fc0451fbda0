"""The share of seconds that goes with the first of two counts, held against machines whose share is known."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from controlplane.evidence.two_costs import FEWEST_WINDOWS, first_share

WINDOWS = 180
PACE, WIDTH = 4e12, 2e11
"""Operations and bytes a second."""


@dataclass(frozen=True)
class Machine:
    """windows: seconds, operations and bytes. The shares of its seconds that operations take by themselves, and that
    would be saved if they took none."""

    windows: NDArray[np.float64]
    computing: float
    saved: float


def machine(seed: int, prompts: float, *, added: bool, pace: float = PACE, length: int = 256) -> Machine:
    """Windows of a model of 1e9 weights in two bytes: 40 steps of 1 to 31 decodes each, and prompts by chance. added: a
    step takes both its times one after the other, else the longer of the two."""
    chance = np.random.default_rng(seed)
    rows, computed, saved, whole = [], 0.0, 0.0, 0.0
    for _ in range(WINDOWS):
        tokens = np.concatenate([chance.integers(1, 32, size=40), np.full(chance.poisson(prompts), length)])
        operations, moved = 2e9 * tokens, 2e9 + 1e5 * tokens * chance.uniform(0.5, 1.5)
        computing, reading = operations / pace, moved / WIDTH
        each = computing + reading if added else np.maximum(computing, reading)
        rows.append((each.sum() * chance.lognormal(0, 0.03), operations.sum(), moved.sum()))
        computed, saved, whole = computed + computing.sum(), saved + (each - reading).sum(), whole + each.sum()
    return Machine(np.array(rows), computed / whole, saved / whole)


@pytest.mark.parametrize("prompts", [1.0, 6.0, 20.0])
def test_on_a_machine_that_adds_both_the_interval_covers_the_share(prompts: float) -> None:
    covered = 0
    for seed in range(20):
        truth = machine(seed, prompts, added=True)
        found = first_share(truth.windows, 0)
        assert found is not None and abs(found.share - truth.computing) < 0.05
        covered += found.low <= truth.computing <= found.high
    assert covered >= 17


@pytest.mark.parametrize("prompts", [0.3, 6.0, 60.0])
@pytest.mark.parametrize("pace", [PACE, 10 * PACE])
@pytest.mark.parametrize("length", [256, 2048])
def test_on_one_that_does_both_at_once_it_lies_between_what_is_saved_and_what_is_taken(
    prompts: float, pace: float, length: int
) -> None:
    """What is computed while bytes come in is neither's alone."""
    for seed in range(5):
        truth = machine(seed, prompts, added=False, pace=pace, length=length)
        found = first_share(truth.windows, 0)
        assert found is not None and found.low < truth.computing and found.high > truth.saved
        assert found.high - found.low < 0.4


def test_counts_that_always_come_together_are_not_told_apart() -> None:
    chance = np.random.default_rng(3)
    moved = chance.uniform(1, 2, size=200)
    windows = np.stack([moved * chance.lognormal(0, 0.03, size=200), 5 * moved, moved], axis=1)
    found = first_share(windows, 0)
    assert found is not None and found.high - found.low > 0.9


def test_few_windows_tell_nothing_and_idle_ones_do_not_count() -> None:
    windows = machine(1, 6.0, added=True).windows[:FEWEST_WINDOWS]
    assert first_share(windows, 0) is not None
    idle = windows.copy()
    idle[0] = 0.0
    assert first_share(idle, 0) is None


def test_the_same_windows_give_the_same_answer_in_any_unit() -> None:
    windows = machine(2, 6.0, added=True).windows
    found, again = first_share(windows, 0), first_share(windows * np.array([1e3, 1e-12, 1e-9]), 0)
    assert found is not None and again is not None
    assert (again.share, again.low, again.high) == pytest.approx((found.share, found.low, found.high))
