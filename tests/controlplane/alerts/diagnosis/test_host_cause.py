"""A disturbed host is named, and what an engine does to itself is not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.alerts.diagnosis.arrival import Served
from controlplane.alerts.diagnosis.causes import Context, causes
from controlplane.alerts.diagnosis.config_change import RevisionSeen
from controlplane.alerts.diagnosis.counted_ratio import Level
from controlplane.alerts.diagnosis.host_cause import LOOKED_AT, Reading, host_causes, worst_of
from controlplane.contract import metrics
from controlplane.contract.metrics import WINDOW_S, Metric

ONSET = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
CPUS = {metrics.HOST_CPUS.short: Reading(2.0, 2.0)}


def host(*rows: tuple[Metric, float | None, float | None], since_s: float = 0.0) -> dict[str, Reading]:
    since = ONSET + timedelta(seconds=since_s)
    return {**CPUS, **{metric.short: Reading(before, during, since) for metric, before, during in rows}}


BUSY = host(
    (metrics.HOST_OTHER_CPU, 0.1, 0.93), (metrics.HOST_ENGINE_CPU, 0.2, 0.06), (metrics.HOST_RUN_DELAY, 0.05, 0.6)
)
QUIET = host(
    (metrics.HOST_OTHER_CPU, 0.1, 0.1), (metrics.HOST_ENGINE_CPU, 0.2, 0.2), (metrics.HOST_RUN_DELAY, 0.05, 0.05)
)
BURNS = host(
    (metrics.HOST_OTHER_CPU, 0.1, 0.22), (metrics.HOST_ENGINE_CPU, 0.2, 0.5), (metrics.HOST_RUN_DELAY, 0.05, 0.3)
)
THROTTLED = host((metrics.HOST_THROTTLED, 0.0, 0.41), (metrics.HOST_CPU_LIMIT, 0.5, 0.5))
LOWERED = host((metrics.HOST_THROTTLED, 0.0, 0.41), (metrics.HOST_CPU_LIMIT, 2.0, 0.2))


def first(**context: Any) -> dict[str, Any]:
    return causes(Context(**context), ONSET)[0]


def revised(before_s: float) -> list[RevisionSeen]:
    """Revision 2 took over from 1 so long before the onset."""
    came = ONSET - timedelta(seconds=before_s)
    windows = [came + timedelta(seconds=WINDOW_S * number) for number in range(-60, 12)]
    return [
        RevisionSeen(1, 1.0, 0.0, [Served(at, 20 * (at < came), 20) for at in windows]),
        RevisionSeen(2, 0.0, 1.0, [Served(at, 20 * (at >= came), 20) for at in windows]),
    ]


@pytest.mark.parametrize(
    ("readings", "kind", "said"),
    [
        (BUSY, "cpu", "the host is busy: others used 93 % of two cores, the engine waited 60 % of its time for one"),
        (host((metrics.HOST_STEAL, 0.0, 0.3)), "steal", "took 30 % of the CPU time (steal)"),
        (THROTTLED, "throttled", "the container was throttled 41 % of the time (quota 0.5 CPUs)"),
        (LOWERED, "throttled", "(quota 0.2 CPUs, before 2)"),
        (
            host((metrics.HOST_PRESSURE_MEMORY, 0.0, 0.35), (metrics.HOST_MAJOR_FAULTS, 0.0, 1200.0)),
            "memory",
            "memory is short: 35 % of the time stalled, 1,200 major faults a second",
        ),
        (
            host(
                (metrics.HOST_PRESSURE_MEMORY, 0.0, 0.05),
                (metrics.HOST_PRESSURE_IO, 0.1, 0.8),
                (metrics.HOST_MAJOR_FAULTS, 1.0, 40.0),
            ),
            "io",
            "the disk is slow: 80 % of the time waiting for I/O, 40 major faults a second",
        ),
        (host((metrics.HOST_OUT_OF_MEMORY_KILLS, 0.0, 0.2)), "memory", "processes were killed for it"),
        (
            host((metrics.GPU_CLOCK, 1980.0, 1200.0), (metrics.GPU_THROTTLE_REASON, 0.0, 64.0)),
            "gpu_heat",
            "the GPU slowed down by heat (1,980 -> 1,200 MHz)",
        ),
        (
            host((metrics.GPU_CLOCK, 1980.0, 1200.0), (metrics.GPU_THROTTLE_REASON, 0.0, 4.0)),
            "gpu_power",
            "the GPU slowed down by its power limit",
        ),
        (host((metrics.GPU_XID, 0.0, 79.0)), "gpu_error", "XID 79"),
        (host((metrics.GPU_OTHER_UTILIZATION, 0.0, 0.5)), "gpu_shared", "other processes used 50 % of it"),
    ],
)
def test_each_trouble_is_named_with_its_figures(readings: dict[str, Reading], kind: str, said: str) -> None:
    cause = first(hosts={"n": readings})
    assert (cause["cause"], cause["kind"], cause["node"]) == ("host", kind, "n")
    assert said in cause["message"]
    assert all(name in readings for name in cause["before"])


@pytest.mark.parametrize(
    "readings",
    [
        {},
        CPUS,
        QUIET,
        BURNS,  # It took more for itself than others did.
        host(
            (metrics.HOST_OTHER_CPU, 0.1, 0.9), (metrics.HOST_RUN_DELAY, 0.05, 0.05)
        ),  # Idle cores are taken: no harm.
        host((metrics.HOST_PRESSURE_IO, 0.0, 0.9), (metrics.HOST_PRESSURE_MEMORY, 0.0, 0.9)),  # Another container's.
        host((metrics.HOST_MAJOR_FAULTS, 500.0, 500.0)),
        host((metrics.GPU_CLOCK, 1980.0, 300.0), (metrics.GPU_THROTTLE_REASON, 0.0, 1.0)),  # It idles.
        host((metrics.HOST_OTHER_CPU, None, 0.9), (metrics.HOST_RUN_DELAY, None, 0.9)),
    ],
)
def test_what_is_not_the_hosts_is_not_named(readings: dict[str, Reading]) -> None:
    assert worst_of(readings) is None
    assert first(hosts={"n": readings})["cause"] == "unknown"


def test_more_demand_on_full_cpus_shows_as_waiting() -> None:
    crowded = host(
        (metrics.HOST_OTHER_CPU, 0.78, 0.82), (metrics.HOST_ENGINE_CPU, 0.2, 0.15), (metrics.HOST_RUN_DELAY, 0.3, 0.7)
    )
    assert first(hosts={"n": crowded})["kind"] == "cpu"


def test_who_is_throttled_waits_for_the_quota_and_not_for_others() -> None:
    others = host((metrics.HOST_OTHER_CPU, 0.83, 0.89), (metrics.HOST_RUN_DELAY, 0.8, 0.94))
    assert first(hosts={"n": {**others, **LOWERED}})["kind"] == "throttled"


def test_memory_that_is_short_goes_before_the_cpu_that_it_costs() -> None:
    thrashing = host((metrics.HOST_PRESSURE_MEMORY, 0.0, 0.46), (metrics.HOST_MAJOR_FAULTS, 0.0, 43.0))
    assert first(hosts={"n": {**BUSY, **thrashing}})["kind"] == "memory"


def test_a_configuration_that_came_with_the_slowdown_goes_before_the_host() -> None:
    found = causes(Context(hosts={"n": BUSY}, revisions=revised(5.0)), ONSET)
    assert [cause["cause"] for cause in found] == ["config_change", "host"]


def test_a_host_that_fits_the_onset_better_goes_before_an_older_configuration() -> None:
    found = causes(Context(hosts={"n": BUSY}, revisions=revised(200.0)), ONSET)
    assert [cause["cause"] for cause in found] == ["host", "config_change"]
    late = host(
        (metrics.HOST_OTHER_CPU, 0.1, 0.93), (metrics.HOST_RUN_DELAY, 0.05, 0.6), since_s=60.0
    )  # It began after the slowdown.
    found = causes(Context(hosts={"n": late}, revisions=revised(200.0)), ONSET)
    assert [cause["cause"] for cause in found] == ["config_change", "host"]


def test_a_quota_that_was_always_there_is_no_hosts_fault_when_load_or_configuration_grew() -> None:
    assert first(hosts={"n": THROTTLED}, rate=Level(20.0, 40.0), during_s=60.0)["cause"] == "load"
    assert first(hosts={"n": THROTTLED}, revisions=revised(5.0))["cause"] == "config_change"
    assert first(hosts={"n": LOWERED}, rate=Level(20.0, 40.0), during_s=60.0)["cause"] == "host"


def test_the_host_is_that_of_the_nodes_that_got_slower() -> None:
    hosts = {"a": BUSY, "b": QUIET}
    cause = first(hosts=hosts, node_growth_s={"a": 0.5, "b": 0.01})
    assert (cause["cause"], cause["nodes"]) == ("host", ["a"]) and cause["message"].startswith("node a: the host")
    assert first(hosts=hosts, node_growth_s={"a": -0.1, "b": 0.5})["cause"] == "one_node"
    everywhere = host_causes({"a": BUSY, "b": BUSY}, {"a": 0.5, "b": 0.4}, ONSET)
    assert sorted(everywhere[0]["nodes"]) == ["a", "b"] and everywhere[0]["message"].startswith("the host")


def test_a_host_that_explains_little_of_the_growth_is_not_likely() -> None:
    growth = {"a": 0.15, **{f"n{number}": 0.1 for number in range(20)}}
    hosts = {"a": BUSY, **{f"n{number}": QUIET for number in range(20)}}
    (cause,) = host_causes(hosts, growth, ONSET)
    assert cause["score"] < 0.2


def test_of_a_large_fleet_the_slowest_are_looked_at() -> None:
    growth = {f"n{number}": float(number) for number in range(100)}
    (cause,) = host_causes({f"n{number}": BUSY for number in range(100 - LOOKED_AT, 100)}, growth, ONSET)
    assert cause["score"] > 0.8
