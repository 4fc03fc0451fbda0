"""When a replay has come to rest: ramps, queues that grow, bursts that pass, and arrivals that mean nothing."""

from collections.abc import Sequence

import numpy as np
import pytest

from tuner.replay.completion import RequestTiming
from tuner.replay.steady_state import found_under_way, settled_after

RAMP = [min(place / 2, 10.0) for place in range(20)]
REST = [10.0, 9.0, 11.0, 10.0, 10.0]


@pytest.mark.parametrize(
    ("values", "after"),
    [
        (REST * 10, 0),
        (RAMP + REST * 12, 20),
        ([float(place) for place in range(60)], 60),  # It grows and grows: none of it counts.
        ([30.0] * 25 + REST * 5, 25),  # What was high and has come down is no queue that grows.
        (REST * 7, None),  # Seven batches tell nothing.
        ([], None),
    ],
)
def test_what_comes_first_is_left_out(values: Sequence[float], after: int | None) -> None:
    assert settled_after(values) == after


def test_the_truncation_point_has_the_least_standard_error_of_all() -> None:
    """By the formula in the paper, worked out apart."""
    random = np.random.default_rng(3)
    for _ in range(50):
        values = np.concatenate([random.normal(0, 1, 15) + np.linspace(-4, 0, 15), random.normal(0, 1, 65)])
        batches = values.reshape(-1, 5).mean(axis=1)
        errors = [batches[first:].var() / (len(batches) - first) for first in range(len(batches) // 2 + 1)]
        best = int(np.argmin(errors))
        assert settled_after(values) in (5 * best, len(values))


def test_who_is_under_way_when_another_comes() -> None:
    timings = [
        RequestTiming(0, 0.0, e2e_s=5.0),
        RequestTiming(1, 1.0, e2e_s=1.0),
        RequestTiming(2, 2.0, lateness_s=0.5, e2e_s=0.1),  # Ends at 2.6: it was sent late.
        RequestTiming(3, 2.5, e2e_s=1.0),
        RequestTiming(4, 9.0, e2e_s=1.0),
    ]
    assert found_under_way(timings) == [0, 1, 1, 2, 0]


@pytest.mark.parametrize(("load", "least", "most"), [(0.5, 0.0, 0.1), (2.5, 0.7, 1.0)])
def test_of_bursty_traffic_what_saturates_is_told_and_what_does_not_is_not(
    load: float, least: float, most: float
) -> None:
    """Four places, 50 requests of gamma distributed gaps and lognormal times of service, 200 seeds."""
    grew = [settled_after(found_under_way(_served(seed, 50, load))) == 50 for seed in range(200)]
    assert least <= np.mean(grew) <= most


def _served(seed: int, requests: int, load: float, places: int = 4) -> list[RequestTiming]:
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.gamma(0.44, 1 / 0.44, requests))
    needs = random.lognormal(0.0, 0.8, requests) / np.exp(0.32) * load * places
    free, found = np.zeros(places), []
    for at, need in zip(arrivals, needs, strict=True):
        place = int(free.argmin())
        free[place] = max(at, free[place]) + need
        found.append(RequestTiming(len(found), float(at), e2e_s=float(free[place] - at)))
    return found
