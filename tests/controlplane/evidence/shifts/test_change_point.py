"""A planted change lies within the interval about as often as it says; too few ticks have none."""

from typing import Any

import numpy as np
import pytest

from controlplane.evidence.shifts.change_point import LEAST_TICKS, change_point


def series(seed: int, at: int, ticks: int, factor: float, drift: float = 0.0) -> Any:
    """Counts in four classes, of 50 requests a tick whose latencies grow by `factor` from tick `at` on."""
    chance = np.random.default_rng(seed)
    rows = []
    for tick in range(ticks):
        values = chance.lognormal(chance.normal(0.0, drift), 0.6, chance.poisson(50)) * (factor if tick >= at else 1.0)
        rows.append(np.histogram(values, [0.0, 1.0, 2.2, 4.0, np.inf])[0])
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize("drift", [0.0, 0.1])
def test_the_change_is_within_the_interval(drift: float) -> None:
    """Of 100; a coverage of 95 % has fewer than 89 with 1 %."""
    found = [change_point(series(seed, 120, 140, 1.5, drift), 110) for seed in range(100)]
    assert sum(one is not None and one.low <= 120 <= one.high for one in found) >= 89
    assert np.median([one.high - one.low for one in found if one is not None]) <= 12


def test_a_large_change_is_known_to_the_tick() -> None:
    found = change_point(series(1, 60, 80, 4.0), 50)
    assert found is not None and (found.tick, found.low, found.high) == (60, 60, 60)


def test_where_nothing_changed_the_interval_is_wide() -> None:
    wide = []
    for seed in range(20):
        found = change_point(series(seed, 0, 100, 1.0), 80)
        assert found is not None
        wide.append(found.high - found.low)
    assert np.median(wide) > 50


@pytest.mark.parametrize("ticks", [0, 1, 2 * LEAST_TICKS - 1])
def test_of_too_few_ticks_there_is_none(ticks: int) -> None:
    assert change_point(np.zeros((ticks, 4), np.int64), ticks) is None


def test_without_requests_every_tick_is_as_likely() -> None:
    found = change_point(np.zeros((20, 4), np.int64), 10)
    assert found is not None and found.high - found.low >= 12
