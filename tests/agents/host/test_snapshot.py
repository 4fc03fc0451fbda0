"""What two moments say of the time between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host.control_group import Throttling
from agents.host.processor import ProcessorTimes
from agents.host.snapshot import TICKS_PER_S, EngineCounters, Snapshot, figures
from controlplane.contract import metrics

SECOND = TICKS_PER_S
ENGINE, OTHER_ENGINE = (10, 100), (20, 100)


def snapshot(at_s: float, busy: int, engine: int, fleet: int, **more: object) -> Snapshot:
    times = ProcessorTimes(busy=busy, steal=0, total=round(2 * at_s * SECOND), cpus=2, running=3)
    counters = EngineCounters({ENGINE: engine}, {ENGINE: 5})
    return Snapshot(at_s, processor=times, engine=counters, fleet={OTHER_ENGINE: fleet}, **more)  # type: ignore[arg-type]


def test_others_are_what_neither_the_engine_nor_the_fleet_used() -> None:
    before = snapshot(100.0, busy=0, engine=0, fleet=0)
    after = snapshot(105.0, busy=9 * SECOND, engine=2 * SECOND, fleet=1 * SECOND)
    found = figures(before, after)
    assert found[metrics.HOST_ENGINE_CPU] == pytest.approx(0.2)
    assert found[metrics.HOST_FLEET_CPU] == pytest.approx(0.1)
    assert found[metrics.HOST_OTHER_CPU] == pytest.approx(0.6)
    assert (found[metrics.HOST_CPUS], found[metrics.HOST_RUN_QUEUE]) == (2.0, 3.0)


def test_without_the_engine_nobody_is_other() -> None:
    processor = ProcessorTimes(0, 0, 0, 2, 1), ProcessorTimes(100, 50, 1000, 2, 1)
    found = figures(Snapshot(0.0, processor=processor[0]), Snapshot(5.0, processor=processor[1]))
    assert found[metrics.HOST_STEAL] == 0.05
    assert not {metrics.HOST_OTHER_CPU, metrics.HOST_ENGINE_CPU, metrics.HOST_MAJOR_FAULTS} & found.keys()


def test_a_neighbour_seen_for_the_first_time_does_not_count_its_past() -> None:
    before, after = snapshot(100.0, 0, 0, 0), snapshot(105.0, 9 * SECOND, 0, 0)
    old, young = (30, 200), (31, 101 * SECOND)
    joined = Snapshot(**{**vars(after), "fleet": {OTHER_ENGINE: 0, old: 999 * SECOND, young: 2 * SECOND}})
    assert figures(before, joined)[metrics.HOST_FLEET_CPU] == pytest.approx(0.2)


def test_pressure_and_throttling_are_shares_of_the_window() -> None:
    before = Snapshot(0.0, pressure={"cpu": 0}, container_pressure={"io": 10}, throttling=Throttling(10, 1, 0.5))
    after = Snapshot(
        5.0, pressure={"cpu": 2_500_000, "memory": 9}, container_pressure={"io": 10}, throttling=Throttling(60, 21, 0.5)
    )
    found = figures(before, after)
    assert found[metrics.HOST_PRESSURE_CPU] == 0.5 and found[metrics.CONTAINER_PRESSURE_IO] == 0.0
    assert metrics.HOST_PRESSURE_MEMORY not in found  # It was not measured before.
    assert (found[metrics.HOST_THROTTLED], found[metrics.HOST_CPU_LIMIT]) == (0.4, 0.5)


def test_run_delay_is_of_the_time_in_which_threads_could_run() -> None:
    before, after = snapshot(100.0, 0, 0, 0), snapshot(105.0, 0, 0, 0)
    then = EngineCounters(before.engine.ticks, {}, {(10, 10): (0, 0, 0), (10, 11): (100, 100, 5)})  # type: ignore[union-attr]
    now = EngineCounters(before.engine.ticks, {}, {(10, 10): (300, 100, 2), (10, 12): (0, 100, 1)})  # type: ignore[union-attr]
    found = figures(Snapshot(**{**vars(before), "engine": then}), Snapshot(**{**vars(after), "engine": now}))
    assert found[metrics.HOST_RUN_DELAY] == 0.4 and found[metrics.HOST_INVOLUNTARY_SWITCHES] == 3.0


def test_the_share_of_memory_left_is_the_lesser() -> None:
    before = Snapshot(0.0)
    assert figures(before, Snapshot(5.0, memory_available=0.5, memory_left=0.1))[metrics.HOST_MEMORY_AVAILABLE] == 0.1
    assert figures(before, Snapshot(5.0, memory_available=0.5))[metrics.HOST_MEMORY_AVAILABLE] == 0.5


def test_no_time_no_figures() -> None:
    assert figures(snapshot(5.0, 9, 9, 9), snapshot(5.0, 10, 10, 10)) == {}


counter = st.integers(0, 10**6)


@given(st.tuples(counter, counter, counter), st.tuples(counter, counter, counter), st.floats(0.1, 100))
def test_no_restarted_counter_makes_a_share_leave_its_bounds(
    then: tuple[int, int, int], now: tuple[int, int, int], passed_s: float
) -> None:
    before, after = snapshot(10.0, *then), snapshot(10.0 + passed_s, *now)
    for metric, value in figures(before, after).items():
        assert value >= 0.0
        if metric.unit == "1":
            assert value <= 1.0, metric.name
