"""Falling is told from noise, from jumps, and from rest."""

import numpy as np
import pytest

from controlplane.alerts.symptoms.trend_course import falling

RANDOM = np.random.default_rng(5)
STEPS = 36


def test_a_straight_fall_has_its_slope_and_is_beyond_doubt() -> None:
    z, slope = falling(0.6 - 0.01 * np.arange(STEPS) + RANDOM.normal(0.0, 0.005, STEPS))
    assert z < -7.0 and slope == pytest.approx(-0.01, rel=0.1)


def test_noise_and_a_jump_are_no_fall_at_the_catalogues_level() -> None:
    noise = [falling(RANDOM.normal(0.5, 0.05, STEPS))[0] for _ in range(500)]
    assert min(noise) > -4.0
    assert falling(np.where(np.arange(STEPS) < 34, 0.6, 0.2))[0] > -4.0


def test_gaps_are_left_out_and_too_little_says_nothing() -> None:
    values = 0.6 - 0.01 * np.arange(STEPS, dtype=float)
    values[5:15] = np.nan
    assert falling(values)[1] == pytest.approx(-0.01)
    assert falling(np.array([0.5, np.nan])) == (0.0, 0.0)
