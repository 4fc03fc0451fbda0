"""What a replay promises: counted where there is something to count, else by how the highest evidence falls off."""

import math

import numpy as np
import pytest

from controlplane.evidence.poisson import upper
from controlplane.evidence.replayed_rate import BLOCK_TICKS, replayed_rate

TICK_S, WEEK_S, BLOCKS = 5.0, 7 * 86400.0, 24


def evidence(tops: np.ndarray) -> np.ndarray:
    """Each block reaches its top at one tick."""
    found = np.zeros(tops.size * BLOCK_TICKS)
    found[BLOCK_TICKS // 2 :: BLOCK_TICKS] = tops
    return found


def test_alarms_are_counted_by_block_and_bound_by_poisson() -> None:
    tops = np.full(BLOCKS, 1.0)
    tops[[3, 9]] = 16.0
    found = replayed_rate(evidence(tops), TICK_S, 15.0)
    assert (found.alarms, found.highest, found.expected, found.bound) == (2, 16.0, None, None)
    assert found.span_s == BLOCKS * BLOCK_TICKS * TICK_S
    assert found.counted_bound == pytest.approx(upper(2) * WEEK_S / found.span_s)


@pytest.mark.parametrize("scale", [1.5, 2.5])
def test_the_tail_tells_the_rate_of_blocks_that_are_higher_still(scale: float) -> None:
    """Of tops with exponential excesses the rate beyond a threshold is known; the bound holds it nineteen times in
    twenty, and is not far off."""
    threshold, held, close = 8.0 * scale, 0, []
    truth = WEEK_S / (BLOCK_TICKS * TICK_S) * math.exp(-threshold / scale)
    for seed in range(200):
        tops = np.random.default_rng(seed).exponential(scale, BLOCKS)
        found = replayed_rate(evidence(tops), TICK_S, threshold)
        if found.bound is None or found.expected is None:
            continue
        assert found.expected <= found.bound
        held += found.bound >= truth
        close.append(math.log(found.expected / truth))
    assert held >= 180
    assert abs(float(np.median(close))) < 1.5


def test_a_past_without_any_sign_falls_off_no_faster_than_likelihood_ratios_do() -> None:
    found = replayed_rate(np.zeros(BLOCKS * BLOCK_TICKS), TICK_S, 15.0)
    blocks_a_week = WEEK_S / (BLOCK_TICKS * TICK_S)
    assert found.expected == pytest.approx(0.5 * blocks_a_week * math.exp(-15.0))
    assert found.bound is not None and found.bound > found.expected


def test_of_too_little_nothing_is_extrapolated() -> None:
    found = replayed_rate(np.zeros(2 * BLOCK_TICKS), TICK_S, 15.0)
    assert found.expected is None and found.bound is None and found.counted_bound > 1000.0
