"""What agents cost that have nothing to say: heartbeats at the interval that the service itself gives."""

import time
from collections import Counter
from dataclasses import dataclass

from benchmarks.agents_at_scale.agent_crowd import Crowd
from benchmarks.agents_at_scale.spent import Meter, Spent
from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.telemetry_measures.service import Service
from controlplane.fleet.opamp.throttling import OWN_S, heartbeat_s

GOAL = 0.05
_ALONE_S = 20.0


@dataclass(frozen=True)
class Idle:
    """connected_s: until all were in; alone: of the service without agents; told: agents by the seconds between their
    heartbeats; bytes_each: resident memory of the service, of each connection."""

    connected_s: float
    connecting: Spent
    alone: Spent
    spent: Spent
    messages: int
    told: Counter[float]
    bytes_each: float
    heard: Counter[str]

    @property
    def share(self) -> float:
        return self.spent.service_s / self.spent.took_s


def measure(service: Service, crowd: Crowd, seconds: float, settle_s: float | None = None) -> Idle:
    """settle_s: after the last has come; None: until each has heard how seldom it may speak, and has once done so."""
    alone = _watch(service, min(seconds, _ALONE_S))
    before, _ = service.memory_bytes()
    meter = Meter(service)
    connected_s = crowd.connect()
    connecting = meter.spent()
    progress(f"idle: {len(crowd.agents):,} agents are in after {connected_s:.0f} s")
    time.sleep(OWN_S + heartbeat_s(len(crowd.agents)) if settle_s is None else settle_s)
    sent, heard = crowd.sent(), Counter(crowd.refusals.told)
    spent = _watch(service, seconds)
    messages = crowd.sent() - sent
    after, _ = service.memory_bytes()
    told = Counter(agent.client.told_s for agent in crowd.agents)
    each = (after - before) / len(crowd.agents)
    return Idle(connected_s, connecting, alone, spent, messages, told, each, crowd.refusals.told - heard)


def _watch(service: Service, seconds: float) -> Spent:
    meter = Meter(service)
    time.sleep(seconds)
    return meter.spent()


def tell(found: Idle, agents: int) -> bool:
    """Whether the goal was reached."""
    heading(f"{agents:,} agents idle")
    alone = found.alone.service_s / found.alone.took_s
    each_ms = 1000 * (found.share - alone) * found.spent.took_s / max(1, found.messages)
    table(
        ["service, % of a core", "without agents", "messages a second", "ms of CPU a message", "KiB a connection"],
        [
            [
                *(f"{100 * found.share:.1f}", f"{100 * alone:.1f}"),
                *(f"{found.messages / found.spent.took_s:.1f}", f"{each_ms:.2f}", f"{found.bytes_each / 1024:.0f}"),
            ]
        ],
    )
    intervals = ", ".join(f"{count:,} each {seconds:g} s" for seconds, count in sorted(found.told.items()))
    note(f"- heartbeats: {intervals}")
    note(f"- idle: {found.spent}")
    note(f"- connecting, {found.connected_s:.1f} s: {found.connecting}")
    for what, times in found.heard.most_common(5):
        note(f"- {times} times: {what}")
    reached = found.share <= GOAL
    note(f"\nGoal: at most {100 * GOAL:g} % of a core: **{'reached' if reached else 'NOT reached'}**.")
    return reached
