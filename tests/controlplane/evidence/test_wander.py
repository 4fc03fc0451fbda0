"""The fit finds the noise that was put in, and its covariances are those of the process."""

import math

import numpy as np
import pytest
from scipy import optimize

from controlplane.evidence.wander import (
    TAUS_TICKS,
    Earlier,
    Seen,
    Wander,
    _mean_covariance,
    differences,
    fit,
    non_negative,
    wander_of,
)

NO_FLOORS = [0.0] * len(TAUS_TICKS)


def process(sd: float, tau: float, ticks: int, seed: int) -> np.ndarray:
    random, keep = np.random.default_rng(seed), math.exp(-1.0 / tau)
    at, found = sd * random.normal(), np.empty(ticks)
    for place in range(ticks):
        at = keep * at + sd * math.sqrt(1 - keep**2) * random.normal()
        found[place] = at
    return found


def test_independent_ticks_have_no_wandering() -> None:
    sampling = np.full(4000, 0.04)
    found = fit(0.2 * np.random.default_rng(2).normal(size=4000), sampling, NO_FLOORS)
    assert found.tick < 0.1 * 0.04


def test_a_process_is_found_under_sampling_noise() -> None:
    sampling = np.full(8000, 0.04)
    values = process(0.3, 12.0, 8000, 3) + 0.2 * np.random.default_rng(4).normal(size=8000)
    values[100:140] = np.nan
    found = fit(values, sampling, NO_FLOORS)
    assert found.tick == pytest.approx(0.09, rel=0.35)
    assert found.variances[2] + found.variances[1] + found.variances[3] > 0.7 * found.tick


def test_floors_hold_and_a_history_of_nothing_has_only_them() -> None:
    floors = [0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.2]
    assert fit(np.full(100, np.nan), np.full(100, 1.0), floors).variances == tuple(floors)
    assert fit(np.zeros(100), np.full(100, 1.0), floors).variances[-1] == 0.2


def test_covariances_are_those_of_the_means_of_spans() -> None:
    edges = np.array([0.0, 2.0, 6.0, 20.0])
    found = Wander((0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0)).covariance(edges)
    fine = np.arange(0.0, 20.0, 0.02) + 0.01
    exact = 0.5 * np.exp(-np.abs(fine[:, None] - fine[None, :]) / TAUS_TICKS[2])
    span = np.searchsorted(edges, fine) - 1
    weights = (span[None, :] == np.arange(3)[:, None]) / np.bincount(span)[:, None]
    assert found == pytest.approx(weights @ exact @ weights.T, rel=1e-3)
    assert (np.linalg.eigvalsh(found) > 0).all()


def test_covariances_of_spans_that_were_seen_before_are_to_the_bit_the_same() -> None:
    several = [np.array(edges) for edges in ([0.0, 2.0, 6.0, 20.0], [0.0, 3.0, 6.0, 20.0], [0, 2, 6, 20])]
    noise = Wander((0.3, 0.0, 0.5, 0.2, 0.0, 0.1, 0.7))
    first = [noise.covariance(edges) for edges in several]
    for edges, found in zip(several, first, strict=True):
        plain = np.diag(0.3 / np.diff(edges))
        for variance, tau in zip(noise.variances[1:], TAUS_TICKS[1:], strict=True):
            if variance:
                plain = plain + variance * _mean_covariance(edges / tau)
        assert (found == plain).all()
        found[0, 0] = 9.0  # Nobody else's.
        assert (noise.covariance(edges) == plain).all()


@pytest.mark.parametrize("seed", range(20))
def test_least_squares_without_negative_coefficients_are_the_best_there_are(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = np.exp(-np.outer(np.arange(12), 1.0 / np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0])))
    wanted = shape @ np.maximum(random.normal(size=7), 0.0) * random.lognormal(0.0, 0.3, 12)
    found, best = non_negative(shape, wanted), optimize.nnls(shape, wanted)
    assert (found >= 0.0).all()
    assert np.linalg.norm(shape @ found - wanted) <= best[1] * (1.0 + 1e-6) + 1e-9


def slow_noise(factor: float, ticks: int, seed: int) -> np.ndarray:
    return factor * (process(0.1, 12.0, ticks, seed) + process(0.1, 360.0, ticks, seed + 500))


def remembered(values: np.ndarray, sampling: float) -> list[Earlier]:
    found = differences(values, np.full(values.size, sampling))
    return [Earlier(one.scale, one.pairs, one.square - one.sampling) for one in found]


def of_a_rise(found: Wander) -> float:
    """The variance of five minutes less the hour before: what a rise is told from."""
    spans = found.covariance(np.array([0.0, 60.0, 780.0]))
    return float(spans[0, 0] + spans[1, 1] - 2.0 * spans[0, 1])


@pytest.mark.slow
def test_what_longer_ago_showed_makes_slow_noise_better_known() -> None:
    sampling, before_ticks = np.full(4096, 1e-4), 8 * 4096
    true, alone, informed = of_a_rise(Wander((0.0, 0.0, 0.01, 0.0, 0.0, 0.01, 0.0))), [], []
    for seed in range(12):
        values = slow_noise(1.0, before_ticks + 4096, seed)
        before = remembered(values[:before_ticks], 1e-4)
        seen = differences(values[before_ticks:], sampling)
        alone.append(abs(math.log(of_a_rise(wander_of(seen, NO_FLOORS)) / true)))
        informed.append(abs(math.log(of_a_rise(wander_of(seen, NO_FLOORS, before)) / true)))
    assert np.mean(informed) < 0.6 * np.mean(alone)


@pytest.mark.parametrize("seed", range(6))
def test_noise_that_has_grown_is_not_talked_down_by_the_past(seed: int) -> None:
    sampling, ticks = np.full(4096, 1e-4), 4096
    before = remembered(slow_noise(1.0, 8 * ticks, seed), 1e-4)
    seen = differences(slow_noise(4.0, ticks, seed + 50), sampling)
    assert wander_of(seen, NO_FLOORS, before).quick_over(1) > 0.8 * wander_of(seen, NO_FLOORS).quick_over(1)


def test_what_was_sampled_otherwise_before_says_the_same_of_the_noise() -> None:
    """Ten times the requests then: less sampling noise, the same wandering."""
    values, few = process(0.3, 12.0, 8192, 3), np.random.default_rng(4).normal(size=4096)
    before = remembered(values[:4096] + 0.06 * few, 0.0036)
    seen = differences(values[4096:] + 0.2 * few, np.full(4096, 0.04))
    assert wander_of(seen, NO_FLOORS, before).tick == pytest.approx(0.09, rel=0.35)


@pytest.mark.parametrize(("pairs", "usual", "by_pairs"), [(2.0, 2.0, 2.5), (4.5, 5 / 3, 5 / 3), (200.0, 1.1, 1.015)])
def test_caution_by_pairs_is_less_where_many_are_known_and_more_where_few_are(
    pairs: float, usual: float, by_pairs: float
) -> None:
    """Also where most of them are remembered."""
    for seen, before in (
        ([Seen(1, pairs, 2.0, 0.0)], []),
        ([Seen(1, pairs / 4, 2.0, 0.0)], [Earlier(1, 0.75 * pairs, 2.0)]),
    ):
        assert wander_of(seen, NO_FLOORS, before).tick == pytest.approx(usual)
        assert wander_of(seen, NO_FLOORS, before, by_pairs=True).tick == pytest.approx(by_pairs)
