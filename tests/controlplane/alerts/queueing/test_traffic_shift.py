"""Levels of a pool's traffic: what is a rise, what is only wandering, and what a mix does by itself."""

import math

import numpy as np
import pytest

from controlplane.alerts.queueing.level_watch import LevelWatch, Series
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.alerts.queueing.traffic_shift import (
    LOAD_RISES,
    MIX_RISES,
    by_mix_alone,
    load_series,
    mix_series,
    shares,
    usual_shares,
)
from controlplane.contract.histogram import axis_position
from controlplane.evidence.sketch import Sketch

HOUR = 720
THRESHOLD = math.log1p(2 * 28 * 86400 / 5)
LASTS_S = 3600.0


def pool(counts: np.ndarray, long: np.ndarray) -> PoolLoad:
    nothing = np.zeros(counts.size)
    by_bucket = {"<=512": counts - long, "<=2k": long}
    return PoolLoad(0.0, 5.0, counts, nothing, nothing, nothing, nothing + 1.0, by_bucket)


def traffic(factor: float = 1.0, long: float = 0.05, wanders: float = 0.0, seed: int = 3) -> PoolLoad:
    """Two hours as usual, then ten minutes at another rate and mix."""
    random = np.random.default_rng(seed)
    ticks = 2 * HOUR + 120
    changed = np.arange(ticks) >= 2 * HOUR
    slow = np.zeros(ticks)
    for tick in range(1, ticks):
        slow[tick] = 0.995 * slow[tick - 1] + wanders * 0.1 * random.normal()
    counts = random.poisson(30.0 * np.exp(slow) * np.where(changed, factor, 1.0)).astype(float)
    return pool(counts, random.binomial(counts.astype(int), np.where(changed, long, 0.05)).astype(float))


def calm(factors: np.ndarray, seed: int) -> PoolLoad:
    """A hundred requests a tick that wander by 9 % with a memory of ten minutes."""
    random = np.random.default_rng(seed)
    slow, kept = np.zeros(factors.size), math.exp(-1 / 120)
    for tick in range(1, factors.size):
        slow[tick] = kept * slow[tick - 1] + 0.09 * math.sqrt(1 - kept**2) * random.normal()
    counts = random.poisson(100.0 * np.exp(slow) * factors).astype(float)
    return pool(counts, np.zeros(factors.size))


def told(made: PoolLoad, of: str) -> LevelWatch:
    watch = LevelWatch()
    series, rises = (load_series, LOAD_RISES) if of == "load" else (mix_series, MIX_RISES)
    for size in range(2 * HOUR - 240, len(made) + 1, 2):
        watch.take(series(made.until(size)), rises, THRESHOLD, LASTS_S)
        if watch.alarmed:
            break
    return watch


def test_nothing_is_told_where_traffic_is_as_usual() -> None:
    assert not told(traffic(), "load").alarmed and not told(traffic(), "mix").alarmed


@pytest.mark.parametrize("factor", [1.7, 3.0])
def test_a_surge_is_told_with_its_onset(factor: float) -> None:
    found = told(traffic(factor), "load")
    assert found.alarmed and found.onset_s is not None and abs(found.onset_s - 10 * HOUR) <= 30.0
    assert not told(traffic(factor), "mix").alarmed


@pytest.mark.parametrize("seed", range(4))
def test_a_load_that_doubles_is_told_where_traffic_wanders_by_a_tenth_in_minutes(seed: int) -> None:
    made = calm(np.where(np.arange(2 * HOUR + 120) >= 2 * HOUR, 2.2, 1.0), seed)
    found = told(made, "load")
    assert found.alarmed and found.onset_s is not None and abs(found.onset_s - 10 * HOUR) <= 30.0


@pytest.mark.parametrize("seed", range(4))
def test_one_tick_of_three_times_the_load_is_no_surge(seed: int) -> None:
    assert not told(calm(np.where(np.arange(2 * HOUR + 120) == 2 * HOUR + 1, 3.0, 1.0), seed), "load").alarmed


@pytest.mark.slow
def test_longer_prompts_are_told_as_a_mix_alone_and_shorter_ones_not() -> None:
    found = told(traffic(long=0.25), "mix")
    assert found.alarmed and found.onset_s is not None and abs(found.onset_s - 10 * HOUR) <= 60.0
    assert not told(traffic(long=0.25), "load").alarmed
    assert not told(traffic(long=0.0), "mix").alarmed


def test_a_load_that_wanders_so_by_itself_is_no_surge() -> None:
    assert told(traffic(1.7), "load").alarmed and not told(traffic(1.7, wanders=0.5), "load").alarmed


@pytest.mark.slow
def test_it_ends_when_the_level_is_back_and_is_the_new_normal_after_an_hour() -> None:
    random = np.random.default_rng(5)
    rate = np.concatenate([np.full(2 * HOUR, 30.0), np.full(60, 90.0), np.full(120, 30.0)])
    counts = random.poisson(rate).astype(float)
    watch = LevelWatch()
    states = []
    for size in range(2 * HOUR - 60, counts.size + 1):
        watch.take(Series(0.0, 5.0, counts[:size], np.ones(size)), LOAD_RISES, THRESHOLD, LASTS_S)
        states.append(watch.alarmed)
    assert states[70] and not states[-1] and len(watch.closed) == 1
    assert LevelWatch.model_validate(watch.model_dump(mode="json")) == watch
    lasting = LevelWatch()
    counts = random.poisson(np.concatenate([np.full(2 * HOUR, 30.0), np.full(HOUR + 60, 90.0)])).astype(float)
    for size in range(2 * HOUR - 60, counts.size + 1, 3):
        lasting.take(Series(0.0, 5.0, counts[:size], np.ones(size)), LOAD_RISES, THRESHOLD, LASTS_S)
    assert not lasting.alarmed and not lasting.closed


def test_less_than_an_hour_of_past_says_nothing() -> None:
    watch = LevelWatch()
    watch.take(load_series(traffic().until(HOUR)), LOAD_RISES, THRESHOLD, LASTS_S)
    assert watch.variances == () and not watch.alarmed


def sketch(seconds: float, count: int) -> Sketch:
    made = Sketch()
    made.counts[axis_position(seconds)] = count
    return made


def test_a_mix_by_itself_is_the_buckets_past_at_todays_shares() -> None:
    past = {"<=512": sketch(0.1, 980), "<=2k": sketch(1.0, 20)}
    grown = by_mix_alone(past, {"<=512": 0.8, "<=2k": 0.2})
    assert grown is not None and grown.q == 0.95
    assert grown.before_s == pytest.approx(0.1, rel=0.03) and grown.now_s == pytest.approx(1.0, rel=0.03)
    same = by_mix_alone(past, {"<=512": 0.98, "<=2k": 0.02})
    assert same is not None and same.now_s == pytest.approx(same.before_s, rel=0.01)
    assert by_mix_alone({}, {"<=512": 1.0}) is None and by_mix_alone(past, {">32k": 1.0}) is None


def test_shares_are_of_requests_whose_length_is_told() -> None:
    made = traffic(long=0.5)
    assert usual_shares(made)["<=2k"] == pytest.approx(0.05, abs=0.01)
    assert shares(made, slice(2 * HOUR, None))["<=2k"] == pytest.approx(0.5, abs=0.05)
    assert shares(made, slice(0, 0)) == {}
