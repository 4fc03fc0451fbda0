"""The level that bursts alone reach once in a given time, and the watch over it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.queueing.peak_watch import PeakWatch
from controlplane.alerts.queueing.return_level import Manner, return_level

MANNER = Manner(block_s=60.0, floor=1.0, seen=2.0, young=4.0)
HOUR = 720
MONTH_S = 28 * 86400.0


def queue(ticks: int, load: float, seed: int = 1) -> np.ndarray:
    """Lindley's recursion: what waits at each tick of a queue that is loaded so."""
    random = np.random.default_rng(seed)
    steps = random.exponential(load, ticks) - random.exponential(1.0, ticks)
    total = np.cumsum(steps)
    return total - np.minimum.accumulate(np.minimum(total, 0.0))


def test_a_past_of_less_than_half_a_block_says_nothing() -> None:
    assert return_level(np.zeros(5), 5.0, MONTH_S, MANNER) is None
    assert return_level(np.full(720, math.nan), 5.0, MONTH_S, MANNER) is None


def test_a_queue_that_keeps_up_stays_under_its_level_for_months() -> None:
    waits = queue(50 * HOUR, 0.6)
    found = return_level(waits[: 6 * HOUR], 5.0, MONTH_S, MANNER)
    assert found is not None and found.span_s == 6 * 3600.0
    assert waits.max() < found.level < 20.0 * waits[: 6 * HOUR].max()


@given(st.lists(st.floats(0.0, 100.0), min_size=12, max_size=200), st.floats(1.1, 5.0))
def test_the_level_grows_with_what_was_seen_and_is_never_under_it(values: list[float], factor: float) -> None:
    made = np.array(values)
    low, high = (return_level(scale * made, 5.0, MONTH_S, MANNER) for scale in (1.0, factor))
    assert low is not None and high is not None
    assert MANNER.floor <= low.level <= high.level and low.level >= 2.0 * max(values)


def test_a_rarer_false_alarm_and_a_younger_past_want_a_higher_level() -> None:
    waits = queue(6 * HOUR, 0.6)
    gumbel = Manner(block_s=60.0, floor=0.0, seen=0.0, young=0.0)
    levels = [return_level(waits, 5.0, every_s, gumbel) for every_s in (86400.0, MONTH_S)]
    assert levels[0] is not None and levels[1] is not None and levels[0].level < levels[1].level
    short, long = (return_level(np.full(ticks, 3.0), 5.0, MONTH_S, MANNER) for ticks in (12, 1200))
    assert (
        short is not None
        and long is not None
        and short.level > long.level == pytest.approx(6.0 + 12.0 / math.sqrt(100))
    )


def run(values: np.ndarray, watch: PeakWatch, first: int, **how: float) -> int | None:
    """The tick at which it alarms."""
    for tick in range(first, values.size):
        watch.take(values[: tick + 1], 0.0, 5.0, MANNER, MONTH_S, **how)  # type: ignore[arg-type]
        if watch.alarmed:
            return tick
    return None


def test_an_overload_is_told_soon_with_its_onset() -> None:
    calm = queue(2 * HOUR, 0.6)
    grown = np.concatenate([calm, calm[-1] + 1.5 * np.arange(1, 60)])
    watch = PeakWatch()
    told = run(grown, watch, 2 * HOUR - 120)
    assert told is not None and told - calm.size <= 30
    assert watch.onset_s is not None and abs(watch.onset_s - 5.0 * calm.size) <= 60.0


def test_it_is_over_after_a_minute_under_half_and_its_span_teaches_nothing() -> None:
    values = np.concatenate([np.full(HOUR, 0.5), np.full(24, 50.0), np.full(240, 0.5)])
    watch = PeakWatch()
    assert run(values, watch, HOUR - 20) == HOUR
    for tick in range(HOUR + 1, values.size):
        watch.take(values[: tick + 1], 0.0, 5.0, MANNER, MONTH_S)
        assert watch.alarmed == (tick < HOUR + 24 + 12)
    assert watch.closed == [(5.0 * HOUR, 5.0 * (HOUR + 24 + 12))]
    assert watch.level is not None and watch.level.highest == 0.5


def test_a_rise_teaches_nothing_before_it_has_lasted_an_hour() -> None:
    values = np.concatenate([np.full(HOUR, 1.0), np.full(HOUR // 2, 1.6), np.full(HOUR, 1.6)])
    watch = PeakWatch()
    assert run(values[: HOUR + HOUR // 2], watch, HOUR - 20) is None
    assert watch.level is not None and watch.level.highest == 1.0
    assert run(values, watch, HOUR + HOUR // 2) is None
    assert watch.level.highest == 1.6


def test_what_is_not_known_changes_nothing_and_memory_is_json() -> None:
    watch = PeakWatch()
    run(queue(HOUR, 0.5), watch, HOUR - 10)
    before = watch.model_dump(mode="json")
    watch.take(np.full(HOUR, math.nan), 0.0, 5.0, MANNER, MONTH_S)
    assert watch.model_dump(mode="json") == before
    assert PeakWatch.model_validate(before) == watch
