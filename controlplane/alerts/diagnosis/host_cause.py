"""Whether the host is the cause of a slowdown: what others took from the engine, on the nodes that got slower.

Two things make a host the cause, never one alone: something outside the pool grew (others' use of CPU, steal, a lowered
quota, a memory limit, heat), and the engine suffered from just that (waits for a CPU, throttled periods, major faults,
a lower clock). An engine that burns more by itself, for a configuration or a load, is not its host's victim.

Scores fit those of `causes`: below a configuration that reached the pool at the onset, above it where the host's
trouble began at the onset and the configuration did not; docs/decisions has the reasons.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.contract import metrics
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.metrics import Metric
from controlplane.contract.reports.gpu_clocks import HARDWARE, HEAT, POWER
from controlplane.contract.share_text import share_text
from controlplane.evidence.host_thresholds import MIN_GROWTH, MIN_STALL_GROWTH

MIN_STRETCH = 1.25
"""So many times longer the engine took for the same work, by waiting for CPUs, than before."""
FULL = 0.9
CROWDED = 0.35
MIN_FAULTS_PER_S = 10.0
STALLS_AT_WORST = 1.0 / 3.0
"""Growth of the time stalled for memory or I/O that is as grave as a trouble can be."""
CLOCK_DROP = 0.1
TIMELY_S = 20.0
"""The host's trouble began with the slowdown when it began at most so long before or after it."""
CONFIG_LEAD_S = 30.0
"""A configuration that reached the pool at most so long before the slowdown fits it as well as any host trouble."""
COVERED = 0.5
SLOWER = 0.1
"""A node got slower too when it did by such a share of the one that did most."""
TOP, FIRST, RIVAL, OWN_DEMAND = 0.97, 0.92, 0.8, 0.35


@dataclass(frozen=True)
class Reading:
    """One figure of one host, in the mean of windows before and during; a rate a second for sums.

    `since`: the first window in which it was nearer to what it is now than to what it was.
    """

    before: float | None = None
    during: float | None = None
    since: datetime | None = None


LOOKED_AT = 32
"""Nodes whose hosts are looked at, those that got slowest; with more, the rest is told by them."""

Readings = Mapping[str, Reading]
"""By the metric's short name."""


@dataclass(frozen=True)
class Trouble:
    """What is wrong with one host. `severity` 0..1; `own`: the engine's own demand could explain it as well."""

    kind: str
    severity: float
    words: str
    measured: tuple[Metric, ...]
    since: datetime | None = None
    own: bool = False


def host_causes(
    hosts: Mapping[str, Readings],
    growth_s: Mapping[str, float],
    onset: datetime,
    changed: Sequence[datetime | None] = (),
    more_load: bool = False,
) -> list[dict[str, Any]]:
    """The cause "host", at most one.

    hosts, growth_s: by node. changed: when revisions that may be the cause reached the pool, None where not known.
    more_load: whether the load rose.
    """
    total = sum(max(growth_s[node], 0.0) for node in slowest(growth_s))
    largest = max(growth_s.values(), default=0.0)
    slower = [node for node in hosts if total <= 0.0 or growth_s.get(node, 0.0) >= SLOWER * largest]
    found = {node: trouble for node in slower if (trouble := worst_of(hosts[node])) is not None}
    if not found:
        return []
    covered = sum(max(growth_s.get(node, 0.0), 0.0) for node in found) / total if total > 0.0 else 1.0
    nodes = sorted(found, key=lambda node: -found[node].severity)
    trouble = found[nodes[0]]
    return [
        {
            "cause": CauseKind.HOST.value,
            "score": round(_score(trouble, covered, onset, changed, more_load), 3),
            "message": trouble.words if len(hosts) == 1 or len(nodes) > 1 else f"node {nodes[0]}: {trouble.words}",
            "node": nodes[0],
            "nodes": nodes,
            "kind": trouble.kind,
            "since": None if trouble.since is None else trouble.since.isoformat(),
            "before": _values(hosts[nodes[0]], trouble.measured, lambda reading: reading.before),
            "during": _values(hosts[nodes[0]], trouble.measured, lambda reading: reading.during),
        }
    ]


def slowest(growth_s: Mapping[str, float]) -> list[str]:
    """The nodes to look at."""
    return sorted(growth_s, key=lambda node: -growth_s[node])[:LOOKED_AT]


def worst_of(host: Readings) -> Trouble | None:
    """The gravest trouble of one host; one that the engine's own demand explains as well comes last."""
    troubles = [found for look in _LOOKS if (found := look(host)) is not None]
    return max(troubles, key=lambda trouble: (not trouble.own, trouble.severity), default=None)


def _score(
    trouble: Trouble,
    covered: float,
    onset: datetime,
    changed: Sequence[datetime | None],
    more_load: bool,
) -> float:
    if trouble.own and (changed or more_load):
        return OWN_DEMAND
    weight = min(covered / COVERED, 1.0)
    if not changed:
        return weight * (RIVAL + (FIRST - RIVAL) * trouble.severity)
    timely = trouble.since is not None and abs((trouble.since - onset).total_seconds()) <= TIMELY_S
    fits = any(at is None or -TIMELY_S <= (onset - at).total_seconds() <= CONFIG_LEAD_S for at in changed)
    if timely and not fits and trouble.severity >= 0.3:
        return weight * TOP
    return weight * (RIVAL if timely else COVERED)


def _busy(host: Readings) -> Trouble | None:
    """Others took the CPUs, and the engine waited for one."""
    other, waited = _of(host, metrics.HOST_OTHER_CPU), _of(host, metrics.HOST_RUN_DELAY)
    if other.during is None or not _suffers(host) or _grown(_of(host, metrics.HOST_THROTTLED)) >= MIN_GROWTH:
        return None  # Who is throttled waits, too, and not for others.
    own_grown = _grown(_of(host, metrics.HOST_ENGINE_CPU)) + _grown(_of(host, metrics.HOST_FLEET_CPU))
    grown = _grown(other)
    took_more = grown >= MIN_GROWTH and grown > own_grown
    # On CPUs that were full before, more demand shows as waiting; it is others' if the engine did not get more.
    used = other.during + sum(
        _of(host, metric).during or 0.0 for metric in (metrics.HOST_ENGINE_CPU, metrics.HOST_FLEET_CPU)
    )
    crowded = used >= FULL and other.during >= CROWDED and own_grown <= 0.02 and grown >= 0.0
    if not took_more and not crowded:
        return None
    words = f"the host is busy: others used {_cpus(other.during, _of(host, metrics.HOST_CPUS).during)}"
    if waited.during is not None:
        words += f", the engine waited {share_text(waited.during)} of its time for one"
    since = other.since if took_more else waited.since
    measured = (metrics.HOST_OTHER_CPU, metrics.HOST_ENGINE_CPU, metrics.HOST_FLEET_CPU, metrics.HOST_RUN_DELAY)
    return Trouble("cpu", min(max(grown / 0.5, (_stretch(waited) - 1.0) / 2.0), 1.0), words, measured, since)


def _suffers(host: Readings) -> bool:
    """Whether the engine, or something in its control group, waited more for a CPU."""
    waited = _of(host, metrics.HOST_RUN_DELAY)
    if waited.before is not None and waited.during is not None:
        return _stretch(waited) >= MIN_STRETCH
    pressures = (metrics.CONTAINER_PRESSURE_CPU, metrics.HOST_PRESSURE_CPU)
    return any(_grown(_of(host, metric)) >= MIN_GROWTH for metric in pressures)


def _stretch(waited: Reading) -> float:
    """How many times longer work took for the waiting than before: shares near 1 differ little, and mean much.

    With the share w of its time waited, what runs for a second takes 1 / (1 - w).
    """
    if waited.before is None or waited.during is None:
        return 1.0
    return (1.0 - min(waited.before, 0.999)) / (1.0 - min(waited.during, 0.999))


def _stolen(host: Readings) -> Trouble | None:
    steal = _of(host, metrics.HOST_STEAL)
    if steal.during is None or _grown(steal) < MIN_GROWTH:
        return None
    words = f"other machines on the same hardware took {share_text(steal.during)} of the CPU time (steal)"
    return Trouble("steal", min(_grown(steal) / 0.4, 1.0), words, (metrics.HOST_STEAL,), steal.since)


def _throttled(host: Readings) -> Trouble | None:
    throttled, quota = _of(host, metrics.HOST_THROTTLED), _of(host, metrics.HOST_CPU_LIMIT)
    if throttled.during is None or _grown(throttled) < MIN_GROWTH:
        return None
    lowered = quota.before is not None and quota.during is not None and quota.during < 0.95 * quota.before
    words = f"the container was throttled {share_text(throttled.during)} of the time"
    if quota.during is not None:
        words += f" (quota {quota.during:.2g} CPUs" + (f", before {quota.before:.2g})" if lowered else ")")
    measured = (metrics.HOST_THROTTLED, metrics.HOST_CPU_LIMIT, metrics.HOST_ENGINE_CPU)
    return Trouble("throttled", min(throttled.during / 0.6, 1.0), words, measured, throttled.since, own=not lowered)


def _short_of_memory(host: Readings) -> Trouble | None:
    """Memory or the disk under it: told apart by what more time was lost to."""
    faults, left = _of(host, metrics.HOST_MAJOR_FAULTS), _of(host, metrics.HOST_MEMORY_AVAILABLE)
    kills = _of(host, metrics.HOST_OUT_OF_MEMORY_KILLS)
    memory = _higher(host, metrics.CONTAINER_PRESSURE_MEMORY, metrics.HOST_PRESSURE_MEMORY)
    io = _higher(host, metrics.CONTAINER_PRESSURE_IO, metrics.HOST_PRESSURE_IO)
    faulting = (faults.during or 0.0) >= MIN_FAULTS_PER_S and (faults.during or 0.0) >= 3.0 * (faults.before or 0.0)
    killed = (kills.during or 0.0) > 0.0
    # The whole host's stalls may be another container's alone; the engine's own group's are the engine's.
    stalled = _grown(_of(host, metrics.CONTAINER_PRESSURE_MEMORY)) >= MIN_STALL_GROWTH
    waiting = _grown(_of(host, metrics.CONTAINER_PRESSURE_IO)) >= MIN_GROWTH
    if not (faulting or killed or stalled or waiting):
        return None
    rate = f"{faults.during:,.0f} major faults a second" if faults.during is not None else ""
    measured = (
        metrics.HOST_PRESSURE_MEMORY,
        metrics.HOST_PRESSURE_IO,
        metrics.CONTAINER_PRESSURE_MEMORY,
        metrics.CONTAINER_PRESSURE_IO,
        metrics.HOST_MAJOR_FAULTS,
        metrics.HOST_MEMORY_AVAILABLE,
    )
    stalls = max(_grown(memory), _grown(io)) / STALLS_AT_WORST
    severity = min(max(stalls, (faults.during or 0.0) / 500.0), 1.0)
    if not killed and not stalled and _grown(io) > 2.0 * _grown(memory):
        words = f"the disk is slow: {share_text(io.during or 0.0)} of the time waiting for I/O"
        since = faults.since or io.since
        return Trouble("io", severity, ", ".join(filter(None, (words, rate))), measured, since)
    told = [f"{share_text(memory.during)} of the time stalled" if memory.during is not None else "", rate]
    told.append(f"{share_text(left.during)} left" if left.during is not None and left.during < 0.1 else "")
    told.append("processes were killed for it" if killed else "")
    words = "memory is short: " + ", ".join(filter(None, told))
    return Trouble("memory", severity, words, measured, faults.since or memory.since)


def _slow_gpu(host: Readings) -> Trouble | None:
    clock, reasons = _of(host, metrics.GPU_CLOCK), _of(host, metrics.GPU_THROTTLE_REASON)
    if clock.before is None or clock.during is None or clock.during > (1.0 - CLOCK_DROP) * clock.before:
        return None
    bits = int(reasons.during or 0)
    how = f"({clock.before:,.0f} -> {clock.during:,.0f} MHz)"
    measured = (metrics.GPU_CLOCK, metrics.GPU_TEMPERATURE, metrics.GPU_POWER, metrics.GPU_POWER_LIMIT)
    severity = min((1.0 - clock.during / clock.before) / 0.4, 1.0)
    if bits & HEAT:
        return Trouble("gpu_heat", severity, f"the GPU slowed down by heat {how}", measured, clock.since)
    if bits & POWER:
        return Trouble("gpu_power", severity, f"the GPU slowed down by its power limit {how}", measured, clock.since)
    if bits & HARDWARE:
        return Trouble("gpu_heat", severity, f"the GPU's hardware slowed it down {how}", measured, clock.since)
    return None  # An idle GPU lowers its clock, too.


def _broken_gpu(host: Readings) -> Trouble | None:
    xid, ecc = _of(host, metrics.GPU_XID), _of(host, metrics.GPU_ECC)
    if xid.during and not xid.before:
        words = f"the GPU had an error: XID {xid.during:.0f}"
        return Trouble("gpu_error", 1.0, words, (metrics.GPU_XID, metrics.GPU_ECC), xid.since)
    if (ecc.during or 0.0) > (ecc.before or 0.0):
        return Trouble("gpu_error", 0.5, "the GPU had uncorrected ECC errors", (metrics.GPU_ECC,), ecc.since)
    return None


def _shared_gpu(host: Readings) -> Trouble | None:
    other = _of(host, metrics.GPU_OTHER_UTILIZATION)
    if other.during is None or _grown(other) < MIN_GROWTH:
        return None
    words = f"the GPU is busy: other processes used {share_text(other.during)} of it"
    return Trouble("gpu_shared", min(_grown(other) / 0.5, 1.0), words, (metrics.GPU_OTHER_UTILIZATION,), other.since)


_LOOKS: tuple[Callable[[Readings], Trouble | None], ...] = (
    # At equal gravity the first counts: pages that are read again and again keep CPUs busy, not the other way round.
    *(_short_of_memory, _throttled, _stolen, _busy),
    *(_slow_gpu, _broken_gpu, _shared_gpu),
)
_NOT_MEASURED = Reading()


def _of(host: Readings, metric: Metric) -> Reading:
    return host.get(metric.short, _NOT_MEASURED)


def _grown(reading: Reading) -> float:
    """By how much; 0 where it was not measured before or during."""
    if reading.before is None or reading.during is None:
        return 0.0
    return reading.during - reading.before


def _higher(host: Readings, *those: Metric) -> Reading:
    return max((_of(host, metric) for metric in those), key=_grown)


def _values(
    host: Readings, measured: Sequence[Metric], value: Callable[[Reading], float | None]
) -> dict[str, float | None]:
    return {metric.short: value(host[metric.short]) for metric in measured if metric.short in host}


def _cpus(share: float, cpus: float | None) -> str:
    if cpus is None:
        return f"{share_text(share)} of its CPUs"
    words = {1: "one core", 2: "two cores", 3: "three cores", 4: "four cores"}
    return f"{share_text(share)} of {words.get(round(cpus), f'{cpus:.0f} cores')}"
