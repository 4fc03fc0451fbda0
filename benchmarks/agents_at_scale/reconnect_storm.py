"""The service is killed (SIGKILL) and started again: how long until every agent is connected and known again.

An agent is known again at the first answer over a connection that it opened after the kill, other than one that tells
it to come later. The goal's time runs from the moment that the service is ready; agents wait by their own backoff.
"""

import time
from collections import Counter
from dataclasses import dataclass

from benchmarks.agents_at_scale.agent_crowd import POOL, Crowd
from benchmarks.agents_at_scale.spent import Meter, Spent
from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.engine_measures.stats import quantile
from benchmarks.telemetry_measures.service import Service
from controlplane.contract.bodies.nodes import NodeState

GOAL_S = 30.0
LIMIT_S = 600.0
_REFUSED = "tailwright_http_refused"
_LAST_CONNECTIONS_S = 180.0


@dataclass(frozen=True)
class Storm:
    """dead_s: from the kill until the service is ready; known_s: each agent's time from the kill; left_out: agents that
    were not known in time; offline: nodes that the service then does not hear from; refused: by the service, by reason;
    told: what agents heard, by text; polling: agents that speak over HTTP once all are known."""

    dead_s: float
    known_s: list[float]
    left_out: int
    offline: int
    polling: int
    refused: dict[str, float]
    told: Counter[str]
    spent: Spent

    @property
    def after_ready_s(self) -> float:
        """Until the last is known."""
        return max(self.known_s, default=0.0) - self.dead_s

    @property
    def holds(self) -> bool:
        return not self.left_out and not self.offline and self.after_ready_s <= GOAL_S


def measure(service: Service, crowd: Crowd, repeats: int) -> list[Storm]:
    crowd.connect()
    return [_storm(service, crowd) for _ in range(repeats)]


def _storm(service: Service, crowd: Crowd) -> Storm:
    count = len(crowd.agents)
    crowd.wait(lambda: crowd.over("websocket") == count, "all agents hold a WebSocket", _LAST_CONNECTIONS_S)
    heard = Counter(crowd.refusals.told)
    service.child.kill()
    began = time.monotonic()
    crowd.await_again()
    service.start()
    dead_s = time.monotonic() - began
    meter = Meter(service)
    progress(f"storm: the service is ready again after {dead_s:.1f} s")
    crowd.within(lambda: crowd.known == count, LIMIT_S)
    spent, polling = meter.spent(), crowd.over("http")
    known = [agent.known_s - began for agent in crowd.agents if agent.known_s is not None]
    meters = {name: value for name, value in service.meters().items() if name.startswith(_REFUSED) and value}
    states = service.client.fleet(POOL).state
    offline = count - sum(state is not NodeState.OFFLINE for state in states)
    told = crowd.refusals.told - heard
    return Storm(dead_s, known, count - len(known), offline, polling, meters, told, spent)


def tell(found: list[Storm], agents: int) -> bool:
    """Whether the goal was reached each time."""
    heading(f"After a kill: {agents:,} agents come back")
    rows = [
        [
            *(str(place), f"{one.dead_s:.1f}"),
            " / ".join(f"{quantile(one.known_s, share):.1f}" for share in (0.5, 0.99, 1.0)),
            *(f"{one.after_ready_s:.1f}", str(one.left_out), str(one.offline), str(one.polling)),
            f"{sum(one.refused.values()):.0f}",
        ]
        for place, one in enumerate(found, 1)
    ]
    table(
        [
            *("kill", "dead, s", "known again since the kill p50 / p99 / max, s", "the last since it is ready, s"),
            *("left out", "offline, says the service", "over HTTP then", "refused"),
        ],
        rows,
    )
    for place, one in enumerate(found, 1):
        note(f"- {place}: since it was ready: {one.spent}; {1000 * one.spent.service_s / agents:.2f} ms each")
        for reason, times in one.refused.items():
            note(f"    - the service: {times:.0f} times {reason}")
        for text, times in one.told.most_common(8):
            note(f"    - the agents: {times:,} times: {text}")
    reached = all(one.holds for one in found)
    told = f"the last within {GOAL_S:g} s of the service being ready, nobody left out"
    note(f"\nGoal: {told}: **{'reached' if reached else 'NOT reached'}**.")
    return reached
