"""All counters of host and engine at one moment, and what two such moments say of the time between them.

Guarantee: a figure is there only if both moments measured what it is made of; no counter that restarted, or process
that was replaced, makes a figure negative. Shares are 0..1.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.host.control_group import Throttling
from agents.host.process import Identity
from agents.host.processor import ProcessorTimes
from controlplane.contract import metrics
from controlplane.contract.metrics import Metric

Figures = dict[Metric, float]
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_PRESSURE = {
    "cpu": (metrics.HOST_PRESSURE_CPU, metrics.CONTAINER_PRESSURE_CPU),
    "memory": (metrics.HOST_PRESSURE_MEMORY, metrics.CONTAINER_PRESSURE_MEMORY),
    "io": (metrics.HOST_PRESSURE_IO, metrics.CONTAINER_PRESSURE_IO),
}


@dataclass(frozen=True)
class EngineCounters:
    """By process: clock ticks and major faults. By (process, thread): ns on a core, ns without one, switches."""

    ticks: Mapping[Identity, int]
    faults: Mapping[Identity, int]
    waits: Mapping[tuple[int, int], tuple[int, int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """`at_s`: seconds since the machine's start. None or an absent key: not measured."""

    at_s: float
    pressure: Mapping[str, int] = field(default_factory=dict)
    container_pressure: Mapping[str, int] = field(default_factory=dict)
    processor: ProcessorTimes | None = None
    memory_available: float | None = None
    memory_left: float | None = None  # Of the engine's control group.
    throttling: Throttling | None = None
    kills: int | None = None
    engine: EngineCounters | None = None
    fleet: Mapping[Identity, int] = field(default_factory=dict)


def figures(before: Snapshot, after: Snapshot) -> Figures:
    """What happened from `before` to `after`."""
    found: Figures = {}
    passed_s = after.at_s - before.at_s
    if passed_s <= 0.0:
        return found
    for resource, (host, container) in _PRESSURE.items():
        for metric, then, now in (
            (host, before.pressure, after.pressure),
            (container, before.container_pressure, after.container_pressure),
        ):
            if resource in then and resource in now:
                found[metric] = _share(now[resource] - then[resource], passed_s * 1e6)
    found |= _processor(before, after) | _container(before, after)
    found |= _engine(before, after)
    left = [share for share in (after.memory_available, after.memory_left) if share is not None]
    if left:
        found[metrics.HOST_MEMORY_AVAILABLE] = min(left)
    return found


def _processor(before: Snapshot, after: Snapshot) -> Figures:
    then, now = before.processor, after.processor
    if then is None or now is None or now.total <= then.total:
        return {}
    total = now.total - then.total
    found: Figures = {
        metrics.HOST_CPUS: float(now.cpus),
        metrics.HOST_RUN_QUEUE: float(now.running),
        metrics.HOST_STEAL: _share(now.steal - then.steal, total),
    }
    if before.engine is None or after.engine is None:
        return found  # Without the engine's own part nobody can say what is others'.
    engine = _grown(before.engine.ticks, after.engine.ticks, before.at_s)
    fleet = _grown(before.fleet, after.fleet, before.at_s)
    found[metrics.HOST_ENGINE_CPU] = _share(engine, total)
    found[metrics.HOST_FLEET_CPU] = _share(fleet, total)
    found[metrics.HOST_OTHER_CPU] = _share(now.busy - then.busy - engine - fleet, total)
    return found


def _container(before: Snapshot, after: Snapshot) -> Figures:
    found: Figures = {}
    if after.throttling is not None:
        found[metrics.HOST_CPU_LIMIT] = after.throttling.quota_cpus
        then = before.throttling or Throttling(0, 0, after.throttling.quota_cpus)
        periods = after.throttling.periods - then.periods
        found[metrics.HOST_THROTTLED] = _share(after.throttling.throttled - then.throttled, periods) if periods else 0.0
    elif after.processor is not None:
        found[metrics.HOST_THROTTLED] = 0.0
        found[metrics.HOST_CPU_LIMIT] = float(after.processor.cpus)
    if before.kills is not None and after.kills is not None:
        found[metrics.HOST_OUT_OF_MEMORY_KILLS] = float(max(after.kills - before.kills, 0))
    return found


def _engine(before: Snapshot, after: Snapshot) -> Figures:
    then_all, now_all = before.engine, after.engine
    if then_all is None or now_all is None:
        return {}
    faults = _grown(then_all.faults, now_all.faults, before.at_s)
    found: Figures = {metrics.HOST_MAJOR_FAULTS: float(faults)}
    known = {pid for pid, _ in then_all.ticks}
    if then_all.waits and now_all.waits:
        ran = waited = switched = 0
        for thread, (ran_now, waited_now, switched_now) in now_all.waits.items():
            if thread not in then_all.waits and thread[0] not in known:
                continue  # A process that was not looked at before: it counts from the next window on.
            then = then_all.waits.get(thread, (0, 0, 0))
            ran += max(ran_now - then[0], 0)
            waited += max(waited_now - then[1], 0)
            switched += max(switched_now - then[2], 0)
        found[metrics.HOST_INVOLUNTARY_SWITCHES] = float(switched)
        found[metrics.HOST_RUN_DELAY] = _share(waited, ran + waited) if ran + waited else 0.0
    return found


def _grown(before: Mapping[Identity, int], after: Mapping[Identity, int], since_s: float) -> int:
    """By how much the counters of those grew that live now; one that began meanwhile counts from nothing.

    One that ran before, but was not looked at, is left out: what it did then is not of this time.
    """
    return sum(
        max(value - before.get(identity, 0), 0)
        for identity, value in after.items()
        if identity in before or identity[1] >= since_s * TICKS_PER_S
    )


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0
