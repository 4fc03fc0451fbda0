"""A pool in the twin: its replicas, each an engine of its own, and what its requests would see."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.bodies.workload import Workload
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.metrics import E2E, TPOT, TTFT
from tuner.twin.assumed_drafts import Drafts
from tuner.twin.costs.step_terms import StepCost
from tuner.twin.dealt_traffic import Scale, arrival_times, dealt
from tuner.twin.simulated_engine import Arrival, EngineShape, SimulatedEngine, Story
from tuner.workload.trace import hash_id

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Around:
    """What a request spends outside of the engine's steps, seconds, as requests were seen to: receiving and tokenizing
    it and sending its first token; and all of it to the last byte. Drawn pairwise, for they go together."""

    first_s: Sequence[float] = (0.0,)
    whole_s: Sequence[float] = (0.0,)


@dataclass(frozen=True)
class Replica:
    """What became of its arrivals, in their order. queried, hits: tokens of prompts that the prefix cache was asked for
    and had."""

    stories: Sequence[Story]
    busy_s: float
    steps: int
    most_running: int
    queried: int
    hits: int


def embedded(pool: "Pool", arrivals: Sequence[Arrival]) -> Replica:
    """By the embedded engine's own scheduler."""
    engine = SimulatedEngine(pool.shape, pool.config, pool.cost, drafts=pool.drafts)
    stories, scheduler = engine.run(arrivals), engine.scheduler
    counts = (engine.steps, engine.most_running, scheduler.prefix_queries, scheduler.prefix_hits)
    return Replica(stories, engine.busy_s, *counts)


Serve = Callable[["Pool", Sequence[Arrival]], Replica]


@dataclass(frozen=True)
class Pool:
    """As it would run. serve: by whose scheduler each replica does."""

    shape: EngineShape
    config: EngineConfig
    cost: StepCost
    replicas: int = 1
    drafts: Drafts = field(default_factory=Drafts)
    around: Around = field(default_factory=Around)
    serve: Serve = embedded


@dataclass(frozen=True)
class PoolRun:
    """at_s: when each request came; values: seconds by metric, NaN where there is none (refused; of one token)."""

    at_s: Floats
    values: dict[str, Floats]
    refused: int
    busy: float
    cached: float
    most_running: int
    steps: int

    def quantile(self, metric: str, q: float, since_s: float = 0.0, until_s: float = math.inf) -> float | None:
        """Of requests that came at or after `since_s`, and before `until_s`."""
        values = self.values[metric][(self.at_s >= since_s) & (self.at_s < until_s)]
        values = values[~np.isnan(values)]
        return float(np.quantile(values, q)) if values.size else None


Part = tuple[Pool, Sequence[int], Sequence[Arrival]]
"""What one engine serves from its start to its end: as what pool's replica, which requests, and those as arrivals."""


def run_pool(pool: Pool, workload: Workload, scale: Scale, seed: int = 0) -> PoolRun:
    """Serve the workload. Each replica starts with an empty cache."""
    parts = [(pool, places, arrivals) for places, arrivals in dealt(workload, pool.replicas, scale, seed)]
    return run_parts(parts, workload, scale, pool.replicas, seed)


def run_parts(parts: Iterable[Part], workload: Workload, scale: Scale, replicas: int, seed: int = 0) -> PoolRun:
    """Serve what each is dealt. replicas: that `busy` is a share of."""
    count = len(workload.requests)
    at_s = arrival_times(workload, scale)
    values = {metric.short: np.full(count, np.nan) for metric in (TTFT, TPOT, E2E)}
    refused = steps = most = 0
    busy = queried = hits = 0.0
    for pool, places, arrivals in parts:
        replica, around = pool.serve(pool, arrivals), pool.around
        for number, story in zip(places, replica.stories, strict=True):
            if story.refused or story.first_token_s is None or story.ended_s is None:
                refused += 1
                continue
            drawn = hash_id(seed, "around", number) % len(around.first_s)
            ttft = story.first_token_s - story.arrived_s + around.first_s[drawn]
            e2e = story.ended_s - story.arrived_s + around.whole_s[drawn]
            values[TTFT.short][number], values[E2E.short][number] = ttft, e2e
            if story.outputs > 1:
                values[TPOT.short][number] = max(0.0, e2e - ttft) / (story.outputs - 1)
        busy, steps, most = busy + replica.busy_s, steps + replica.steps, max(most, replica.most_running)
        queried, hits = queried + replica.queried, hits + replica.hits
    span_s = max(float(at_s[-1]) if count else 0.0, 1e-9)
    return PoolRun(
        at_s,
        values,
        refused,
        busy=min(1.0, busy / replicas / span_s),
        cached=hits / queried if queried else 0.0,
        most_running=most,
        steps=steps,
    )
