"""The dispersion: what each estimator makes of ticks that are known, and of independent, correlated and calm ones."""

import math

import numpy as np
import pytest

from controlplane.evidence.dispersion import Dispersion, dispersion_of


def test_both_see_correlation_and_never_fall_below_one() -> None:
    rng = np.random.default_rng(1)
    level, levels = 0.0, []
    for _ in range(1000):
        level = 0.9 * level + rng.normal() * math.sqrt(1 - 0.81)
        levels.append(level)
    noise, variance = rng.normal(size=1000), np.ones(1000)

    def phis(score: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
        going = Dispersion(1.5)
        for one in score.tolist():
            going.add(one, 1.0)
        return going.phi, dispersion_of(score, variance, 1)

    assert all(1.0 <= phi < 1.6 for phi in phis(noise))
    assert all(phi > 4 for phi in phis(noise + np.array(levels)))
    assert phis(0.1 * noise) == (1.0, 1.0)


def test_ticks_that_go_by_are_added_up_in_blocks_and_shrunk_towards_the_prior() -> None:
    dispersion, cautious = Dispersion(2.0), Dispersion(2.0, caution=1.0)
    assert dispersion.phi == cautious.phi == 2.0
    for ticks, expected in ((6, (6 * 1 + 4 * 2) / 10), (6, (6 * 2 + 4 * 2) / 10)):
        for _ in range(ticks):
            for one in (dispersion, cautious):
                one.add(1.0, 1.0)
                one.add(9.0, 0.0)  # Nothing could have been above: says nothing.
        assert dispersion.phi == pytest.approx(expected)
    assert (dispersion.blocks, dispersion.squares) == ([12, 6, 3, 1, 0], [12.0, 24.0, 48.0, 64.0, 0.0])
    assert cautious.phi == pytest.approx(2.0 * (1 + math.sqrt(2 / 6)))


def runs(length: int, ticks: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """So many ticks of 1, then as many of -1, and so on."""
    return np.where(np.arange(ticks) // length % 2 == 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("score", "fitted", "expected"),
    [
        (runs(1, 20), 10, 20 / 10),  # Fitted shares cost degrees of freedom.
        (runs(6, 384), 1, 3 * 128 / 127),  # It levels off: blocks of twelve hold as much up as down.
        (runs(24, 384), 1, 4 * 12 * 32 / 31),  # It grows as long as there are blocks: by at most four times once more.
        (runs(24, 480), 1, 12 * 40 / 39),  # Blocks of five minutes have shown how far it goes.
        (np.zeros(12), 1, 1.0 + 7 / 8),  # A minute shows no slow noise, however calm it is.
        (np.zeros(96), 1, 1.0),
        (np.zeros(0), 0, 2.0),
    ],
)
def test_a_baseline_of_known_ticks(
    score: np.ndarray[tuple[int], np.dtype[np.float64]], fitted: int, expected: float
) -> None:
    assert dispersion_of(score, np.ones(len(score)), fitted) == pytest.approx(expected)


@pytest.mark.parametrize("run", [1, 2, 4, 8, 16])
def test_windows_that_go_the_same_way_count_for_one(run: int) -> None:
    """Runs of n windows up and n down scatter n times as much as independent ones would."""
    seen = Dispersion(1.5)
    for tick in range(200 * run):
        seen.add(1.0 if tick // run % 2 else -1.0, 1.0)
    assert seen.phi == pytest.approx(run, rel=0.02)


def test_a_scatter_is_learned_from_the_sixth_window_on_beside_what_was_assumed() -> None:
    seen = Dispersion(1.5)
    for tick in range(5):
        seen.add((-1.0) ** tick * 3.0, 1.0)
    seen.add(7.0, 0.0)
    assert seen.phi == 1.5, "too few to say, and one without variance says nothing"
    seen.add(-3.0, 1.0)
    assert seen.phi == pytest.approx((6 * 9.0 + 4 * 1.5) / 10), "six windows of 9 beside four assumed"


def test_with_caution_a_scatter_that_few_have_seen_is_taken_for_larger_and_never_for_less_than_assumed() -> None:
    plain, careful = Dispersion(1.5), Dispersion(1.5, caution=1.5)
    for tick in range(8):
        for one in (plain, careful):
            one.add((-1.0) ** tick * 3.0, 1.0)
    assert careful.phi == pytest.approx(plain.phi * 1.75), "one and a half times half of it, the error of 8 windows"
    for _ in range(2000):
        careful.add(0.01, 1.0)
    assert careful.phi >= 1.5
