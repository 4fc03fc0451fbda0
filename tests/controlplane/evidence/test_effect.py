"""The rise since a known moment: its estimate, its interval, what fades, and what is not known of the level before."""

import math

import numpy as np
import pytest

from controlplane.evidence.effect import NO_RISE, Rise, rise, spans_before
from controlplane.evidence.wander import TAUS_TICKS, Wander

QUIET = Wander(tuple([0.0] * len(TAUS_TICKS)))
RESTLESS = Wander((0.0, 0.0, 0.02, 0.0, 0.0, 0.001, 0.002))
VARIANCE = 0.05


def noise(ticks: int, seed: int) -> np.ndarray:
    return math.sqrt(VARIANCE) * np.random.default_rng(seed).normal(size=ticks)


def risen(values: np.ndarray, before: np.ndarray, wander: Wander = QUIET, **kwargs: float) -> Rise:
    past = spans_before(before, np.full(before.size, VARIANCE), wander)
    return rise(past, values, np.full(values.size, VARIANCE), wander, gap=kwargs.pop("gap", 0.0), **kwargs)


def test_of_independent_ticks_it_is_the_difference_of_means_with_their_variance() -> None:
    before, after = noise(800, 1) + 3.0, noise(200, 2) + 3.4
    found = risen(after, before)
    assert found.estimate == pytest.approx(after.mean() - before.mean(), abs=0.002)
    assert 1.0 / found.information == pytest.approx(VARIANCE / 800 + VARIANCE / 200, rel=0.02)


def test_what_wanders_is_known_the_less_and_time_without_data_more_so() -> None:
    before, after = noise(800, 1), noise(200, 2)
    quiet, restless = risen(after, before), risen(after, before, RESTLESS)
    later = risen(after, before, RESTLESS, gap=500.0)
    assert quiet.information > restless.information > later.information
    after[50:60] = np.nan
    assert risen(after, before, RESTLESS).information < restless.information


def test_offsets_that_are_not_shared_add_their_variance() -> None:
    before, after = noise(800, 1), noise(200, 2)
    plain, shared = risen(after, before), risen(after, before, offset_variance=0.01)
    assert 1.0 / shared.information == pytest.approx(1.0 / plain.information + 0.01)
    assert shared.estimate == pytest.approx(plain.estimate)


@pytest.mark.parametrize("ticks", [24, 60])
def test_a_slow_start_is_no_rise_where_it_may_fade(ticks: int) -> None:
    after = noise(ticks, 2) + 2.0 * np.exp(-np.arange(ticks) / 6.0)
    before = noise(800, 1)
    fading = risen(after, before, fading=6.0)
    assert risen(after, before).interval(0.001)[0] > 0.0
    assert fading.interval(0.001)[0] < 0.0 < fading.interval(0.001)[1]
    assert abs(risen(after + 1.0, before, fading=6.0).estimate - fading.estimate - 1.0) < 1e-6


def test_nothing_seen_is_nothing_known() -> None:
    assert risen(np.full(5, np.nan), noise(800, 1)) == NO_RISE
    assert risen(np.empty(0), noise(800, 1)) == NO_RISE
    assert NO_RISE.interval(0.01) == (-math.inf, math.inf)


def test_the_interval_holds_the_rise_at_every_look_but_for_its_error_rate() -> None:
    missed = evidence = 0
    for seed in range(200):
        past = spans_before(noise(400, seed), np.full(400, VARIANCE), QUIET)
        after = noise(200, 1000 + seed)
        found = [rise(past, after[:ticks], np.full(ticks, VARIANCE), QUIET, gap=0.0) for ticks in range(4, 201, 14)]
        missed += any(not one.interval(0.05)[0] < 0.0 < one.interval(0.05)[1] for one in found)
        evidence += any(one.log_evidence(0.0, [0.1, 0.3]) > math.log(20.0) for one in found)
    assert missed <= 28, "either side with 5 %, at 15 looks of 200 rollouts: twenty would be expected at most"
    assert evidence <= 16, "an e-process at 5 %"


def test_evidence_grows_with_what_is_shown_and_is_against_what_is_not() -> None:
    assert Rise(0.3, 400.0).log_evidence(0.1, [0.3]) == pytest.approx(8.0)
    assert Rise(0.1, 400.0).log_evidence(0.1, [0.3]) == pytest.approx(-8.0)
    assert Rise(0.0, 400.0).log_evidence(0.2, [0.0]) == pytest.approx(8.0), "against a rise, by none"
    mixed = Rise(0.3, 400.0).log_evidence(0.1, [0.3, 0.1])
    assert mixed == pytest.approx(math.log((math.exp(8.0) + 1.0) / 2.0))
