"""How well the difference of two ratios is known: what comes in bursts tells less."""

import numpy as np
import pytest

from controlplane.alerts.diagnosis.counted_ratio import LATE_WINDOWS, Level, Ratio, compared, of_a_length, of_a_share

WINDOWS = 240 + LATE_WINDOWS


def of(over: list[int], least: int = 100) -> Ratio:
    """Over 100 in each window."""
    return Ratio(np.array(over, float), np.full(len(over), 100.0), least)


def test_drafts_that_fare_alike_tell_less_than_as_many_that_do_not() -> None:
    chance = np.random.default_rng(3)
    single = of(chance.binomial(100, 0.5, WINDOWS).tolist())
    alike = of((10 * chance.binomial(10, 0.5, WINDOWS)).tolist())
    few = of([20, 20])
    exact = (0.35 * 0.65 * (1 / (100 * (WINDOWS - LATE_WINDOWS)) + 1 / 200)) ** 0.5
    assert compared(single, few, of_a_share).error == pytest.approx(exact, rel=0.25)
    assert compared(alike, few, of_a_share).error > 2.5 * exact


def test_answers_scatter_as_much_as_they_are_long() -> None:
    chance = np.random.default_rng(4)
    before = of(chance.negative_binomial(100, 1 / 21, WINDOWS).tolist())
    few = of([4000, 4000])
    exact = 30.0 * (1 / (100 * (WINDOWS - LATE_WINDOWS)) + 1 / 200) ** 0.5
    assert compared(before, few, of_a_length).error == pytest.approx(exact, rel=0.25)


def test_a_change_that_is_told_late_passes_neither_for_noise_nor_for_what_was_usual() -> None:
    chance = np.random.default_rng(5)
    quiet = chance.binomial(100, 0.5, WINDOWS)
    late = np.append(quiet[LATE_WINDOWS:], chance.binomial(100, 0.1, LATE_WINDOWS))
    few = of([10] * 6)
    known, told_late = (compared(of(one.tolist()), few, of_a_share) for one in (quiet, late))
    assert told_late.error < 1.5 * known.error, "of the quiet windows alone"
    assert told_late.before == pytest.approx(0.5, abs=0.02) and told_late.during == 0.1


def test_too_few_have_no_ratio_and_no_error() -> None:
    nothing, some = of([50], least=101), of([50] * 20)
    assert nothing.value is None and some.value == 0.5
    assert compared(nothing, some, of_a_share) == Level(None, 0.5)
    assert compared(some, nothing, of_a_share) == Level(0.5, None)
