"""How well the difference of two ratios is known: what comes in bursts tells less."""

import numpy as np
import pytest

from controlplane.alerts.diagnosis.counted_ratio import LATE_WINDOWS, Ratio, difference_error, of_a_length, of_a_share

WINDOWS = 240 + LATE_WINDOWS


def of(over: list[int], least: int = 100) -> Ratio:
    """Over 100 in each window."""
    return Ratio(np.array(over, float), np.full(len(over), 100.0), least)


def test_drafts_that_fare_alike_tell_less_than_as_many_that_do_not() -> None:
    chance = np.random.default_rng(3)
    single = of(chance.binomial(100, 0.5, WINDOWS).tolist())
    alike = of((10 * chance.binomial(10, 0.5, WINDOWS)).tolist())
    few = of([20, 20])
    exact = (0.35 * 0.65 * (1 / (100 * WINDOWS) + 1 / 200)) ** 0.5
    assert difference_error(single, few, of_a_share) == pytest.approx(exact, rel=0.25)
    assert difference_error(alike, few, of_a_share) > 2.5 * exact


def test_answers_scatter_as_much_as_they_are_long() -> None:
    chance = np.random.default_rng(4)
    before = of(chance.negative_binomial(100, 1 / 21, WINDOWS).tolist())
    few = of([4000, 4000])
    exact = 30.0 * (1 / (100 * WINDOWS) + 1 / 200) ** 0.5
    assert difference_error(before, few, of_a_length) == pytest.approx(exact, rel=0.25)


def test_a_change_that_is_told_late_does_not_pass_for_noise() -> None:
    chance = np.random.default_rng(5)
    quiet = chance.binomial(100, 0.5, WINDOWS)
    late = np.append(quiet[LATE_WINDOWS:], chance.binomial(100, 0.1, LATE_WINDOWS))
    few = of([10] * 6)
    known, told_late = (difference_error(of(one.tolist()), few, of_a_share) for one in (quiet, late))
    assert told_late < 1.5 * known, "of the quiet windows alone"


def test_too_few_have_no_ratio_and_no_error() -> None:
    nothing, some = of([50], least=101), of([50] * 20)
    assert nothing.value is None and some.value == 0.5
    assert difference_error(nothing, some, of_a_share) == difference_error(some, nothing, of_a_share) == 0.0
