"""A simulated pool of nodes that tells what real engines tell their agents, event by event.

Requests arrive as a Poisson process and are dealt to the nodes in turn, in a mix of tenants, lengths and hits. A node
serves `SEATS` requests at once and the others wait, the oldest first; a step takes longer the more run beside it, and
delivers a token and those of its `DRAFTS` that are accepted.
Latencies are lognormal, and a node's pace drifts slowly (AR(1), time constant a minute), as machines' does.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controlplane.contract import metrics
from controlplane.contract.metrics import WINDOW_S, Metric

NODES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
SEATS = 8
RATE = 10.0
"""Requests a second over the pool."""
LENGTHS = ((64, 0.45), (300, 0.35), (1200, 0.16), (4000, 0.04))
"""Prompt tokens and their shares, at a log standard deviation of 0.25."""
TENANTS = (("web", 0.6), ("app", 0.3), ("batch", 0.1))
HIT_SHARE = 0.6
STEP_S, PREFILL_S, PREFILL_TOKEN_S = 0.056, 0.03, 6e-5
DRAFTS = 3
NOISE_SD, NOISE_TAU_S = 0.03, 60.0
USUAL_HOST: Mapping[Metric, float] = {
    metrics.HOST_CPUS: 8.0,
    metrics.HOST_PRESSURE_CPU: 0.02,
    metrics.HOST_PRESSURE_MEMORY: 0.0,
    metrics.HOST_PRESSURE_IO: 0.01,
    metrics.CONTAINER_PRESSURE_CPU: 0.02,
    metrics.CONTAINER_PRESSURE_MEMORY: 0.0,
    metrics.CONTAINER_PRESSURE_IO: 0.0,
    metrics.HOST_STEAL: 0.0,
    metrics.HOST_THROTTLED: 0.0,
    metrics.HOST_CPU_LIMIT: 4.0,
    metrics.HOST_ENGINE_CPU: 0.3,
    metrics.HOST_FLEET_CPU: 0.02,
    metrics.HOST_OTHER_CPU: 0.05,
    metrics.HOST_RUN_DELAY: 0.02,
    metrics.HOST_MAJOR_FAULTS: 0.0,
    metrics.HOST_MEMORY_AVAILABLE: 0.5,
    metrics.GPU_CLOCK: 1900.0,
    metrics.GPU_THROTTLE_REASON: 0.0,
    metrics.GPU_TEMPERATURE: 62.0,
    metrics.GPU_POWER: 310.0,
    metrics.GPU_POWER_LIMIT: 400.0,
}


@dataclass(frozen=True)
class World:
    """How the pool is now. Factors multiply a stage's seconds; `slow` those of a group, by label and value, of
    the stages named. host: a node's figures that are not as usual."""

    rate: float = RATE
    lengths: tuple[tuple[int, float], ...] = LENGTHS
    tenants: tuple[tuple[str, float], ...] = TENANTS
    lengths_of: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)  # By tenant.
    hit_share: float = HIT_SHARE
    outputs: int = 20  # Tokens of an answer in the mean, about.
    factors: Mapping[str, float] = field(default_factory=dict)
    slow: Mapping[tuple[str, str], tuple[tuple[str, ...], float]] = field(default_factory=dict)
    revision: int = 1
    host: Mapping[str, Mapping[Metric, float]] = field(default_factory=dict)
    preempted: float = 0.0  # Share of the requests that are preempted and computed again.
    acceptance: float = 0.6
    acceptances: Mapping[str, float] = field(default_factory=dict)  # Of nodes where it is another.
    unguessed: float = 0.0  # Share of the requests that drafts never fit.
    kv_usage: float = 0.5


class Node:
    """One engine. `window` gives its events in the order of time."""

    def __init__(self, name: str, chance: np.random.Generator) -> None:
        self.name = name
        self.chance = chance
        self.free = [0.0] * SEATS  # When each seat is free.
        self.pending: list[tuple[float, int, dict[str, Any]]] = []
        self.seq = self.count = 0
        self.noise = 0.0

    def expect(self, start: float, world: World, arrivals: Sequence[float]) -> None:
        """Told of a window before any node is asked for it: who serves in real time begins with it."""

    def window(self, start: float, world: World, arrivals: Iterable[float]) -> list[dict[str, Any]]:
        """The events of [start, start + WINDOW_S), in which these requests arrive."""
        keep = math.exp(-WINDOW_S / NOISE_TAU_S)
        self.noise = keep * self.noise + NOISE_SD * math.sqrt(1 - keep * keep) * float(self.chance.normal())
        end = start + WINDOW_S
        for at in arrivals:
            for event in self._request(float(at), world):
                self._put(event)
        for at in np.arange(start + 0.25, end, 0.5):
            self._put(self._step(float(at), world))
        found = []
        while self.pending and self.pending[0][0] < end:
            event = heapq.heappop(self.pending)[2]
            self.seq += 1
            found.append({**event, "seq": self.seq})
        return found

    def _put(self, event: dict[str, Any]) -> None:
        self.count += 1
        heapq.heappush(self.pending, (event["time"], self.count, event))

    def _request(self, at: float, world: World) -> Iterator[dict[str, Any]]:
        chance = self.chance
        tenant = drawn_of(world.tenants, chance)
        length = drawn_of(world.lengths_of.get(tenant, world.lengths), chance)
        prompt = max(int(length * chance.lognormal(0.0, 0.25)), 1)
        cached = int(0.8 * prompt) if chance.random() < world.hit_share else 0
        output = 2 + int(chance.geometric(1 / world.outputs))
        labels = {
            "node": self.name,
            "tenant": tenant,
            "prompt_bucket": metrics.prompt_bucket(prompt),
            "cache_class": metrics.cache_class(cached, prompt).value,
        }

        def pace(stage: str) -> float:
            found = world.factors.get(stage, 1.0) * math.exp(self.noise)
            for (label, value), (stages, factor) in world.slow.items():
                if labels[label] == value and stage in stages:
                    found *= factor
            return found

        receive, tokenize = 0.0005, pace("tokenize") * (0.002 + 1e-6 * prompt) * float(chance.lognormal(0.0, 0.3))
        ready = at + receive + tokenize
        seat = heapq.heappop(self.free)
        began = max(ready, seat)
        beside = sum(free > began for free in self.free)
        work = PREFILL_S + PREFILL_TOKEN_S * (prompt - cached)
        prefill = pace("prefill") * work * (1 + 0.02 * beside) * float(chance.lognormal(0.0, 0.2))
        step = pace("decode") * STEP_S * (1 + 0.04 * beside)
        accepted = world.acceptances.get(self.name, world.acceptance)
        if world.unguessed and chance.random() < world.unguessed:
            accepted = 0.0
        held = 1 + chance.binomial(DRAFTS, accepted, output - 1)
        gaps = step * chance.lognormal(0.0, 0.15, int((held.cumsum() < output - 1).sum()) + 1)
        if chance.random() < world.preempted:
            gaps[int(chance.integers(0, len(gaps)))] += 1.0 + float(chance.exponential(0.5))
        decode, send = float(gaps.sum()), pace("send") * 0.002 * float(chance.lognormal(0.0, 0.3))
        first, unaccounted = began + prefill, 0.0003
        end = first + decode + send + unaccounted
        heapq.heappush(self.free, first + decode)
        told = {"revision": world.revision, "prompt_tokens": prompt, "cached_tokens": cached, "tenant": tenant}
        yield {"kind": "first_token", "time": first, **told, "ttft": first - at}
        yield {"kind": "gaps", "time": first + decode, **told, "gaps": gaps.tolist(), "tokens": output - 1}
        yield {
            **told,
            **{"kind": "finished", "time": end, "request_id": f"{self.name}-{self.count}", "finish_reason": "stop"},
            **{"arrival": at, "output_tokens": output, "block_size": 0, "block_hashes": [], "e2e": end - at},
            **{"ttft": first - at, "tpot": decode / (output - 1), "receive": receive, "tokenize": tokenize},
            **{"queue": began - ready, "prefill": prefill, "decode": decode, "send": send},
            "unaccounted": unaccounted,
        }

    def _step(self, at: float, world: World) -> dict[str, Any]:
        running = sum(free > at for free in self.free)
        queued = sum(event["kind"] == "first_token" and when > at for when, _, event in self.pending) - running
        pace = world.factors.get("decode", 1.0) * world.slow.get(("node", self.name), ((), 1.0))[1]
        accepted = (1.0 - world.unguessed) * world.acceptances.get(self.name, world.acceptance)
        forward = pace * 0.9 * STEP_S * (1 + 0.04 * running) * float(self.chance.lognormal(0.0, 0.1))
        return {
            **{"kind": "step", "time": at, "revision": world.revision, "schedule": 0.0005, "forward": forward},
            **{"sample": 0.0008, "commit": 0.0004, "running": running, "waiting": max(queued, 0)},
            **{"kv_usage": world.kv_usage, "batched_tokens": running, "draft_tokens": 40},
            **{"accepted_tokens": int(self.chance.binomial(40, accepted))},
            "preemptions": int(self.chance.random() < 2 * world.preempted),
            "limit": "kv_memory" if world.preempted else "max_num_seqs" if queued > 0 else "no_work",
        }

    def host(self, world: World) -> dict[Metric, float]:
        """The figures of one window, but for a little noise."""
        usual = {**USUAL_HOST, **world.host.get(self.name, {})}
        whole = (metrics.GPU_THROTTLE_REASON, metrics.HOST_CPUS, metrics.HOST_CPU_LIMIT)
        return {
            metric: value if metric in whole else max(value * float(self.chance.normal(1.0, 0.03)), 0.0)
            for metric, value in usual.items()
        }


def drawn_of(of: Any, chance: np.random.Generator) -> Any:
    """One of (value, weight) pairs."""
    at = float(chance.random()) * sum(weight for _, weight in of)
    for value, weight in of:
        at -= weight
        if at < 0.0:
            return value
    return of[-1][0]
