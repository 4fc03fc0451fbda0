"""A pool with a canary in it: real arrivals, a queue a node, nodes that differ and drift, prefix caches, tenants.

A request's prefill takes (fixed + per token x tokens not cached) seconds, times noise of its own (lognormal), times
what the whole pool has in common at that moment (an Ornstein-Uhlenbeck process of a minute), times its node's own:
fast noise, slow drift, and how good its hardware is. It waits for its node in order of arrival. Time per output token
has the same noise of the machine. Nothing here is learnt from the judge.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.arrivals import Lap, Traffic
from benchmarks.detection_measures.worlds import BUCKET_TOPS, BUCKETS, Wander, waits_of
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MAX, AXIS_MIN, SCALE
from controlplane.contract.metrics import PREFILL, QUEUE, TPOT, TTFT, WINDOW_S
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.served import Outcomes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLASSES = ("miss", "hit")
CHUNK_TICKS = 60


@dataclass(frozen=True)
class Scenario:
    """What happens. The canary is node 0, and those after it as told; `factor` holds from the start on.

    share, least_prompt: of the requests that `factor` hits; warm_s: the canary takes `warm_factor` as long after the
    start, falling to nothing in so many seconds; cold_s: its cache fills in so many; hits: the canary's hit rate from
    the start on; hardware: node 0's factor, always; sheds: the share of its slowest that it sheds; sticky: tenants
    keep to nodes, and each comes in bursts; rush: what every request takes longer from the start on, on all nodes;
    from_told: the fault shows once so many nodes run the revision.
    """

    name: str
    factor: float = 1.0
    share: float = 1.0
    least_prompt: int = 0
    util: float = 0.6
    warm_factor: float = 1.0
    warm_s: float = 0.0
    cold_s: float = 0.0
    hits: float | None = None
    hardware: float = 1.0
    sheds: float = 0.0
    sticky: bool = False
    rush: float = 1.0
    from_told: int = 1


@dataclass(frozen=True)
class Shape:
    """rate: requests a second of the pool."""

    rate: float = 20.0
    nodes: int = 5
    sigma: float = 0.3
    common: tuple[float, float] = (0.05, 60.0)
    own: tuple[float, float] = (0.03, 60.0)
    drift: tuple[tuple[float, float], ...] = ((0.01, 3600.0),)
    hits: float = 0.4
    fixed_tokens: int = 250
    tenants: int = 40


@dataclass
class Requests:
    """Those that arrived in some ticks, in order. Durations in seconds, float64[n]."""

    at: Floats
    tick: Ints
    node: Ints
    stratum: Ints
    prefill: Floats
    queue: Floats
    tpot: Floats


@dataclass
class Pool:
    shape: Shape
    scenario: Scenario
    source: Lap
    seed: tuple[int, ...]
    at_s: float = 0.0
    start_s: float = float("inf")
    _free_s: Floats = field(init=False)

    def __post_init__(self) -> None:
        shape = self.shape
        self._random = np.random.default_rng(self.seed)
        self.told: Ints = np.zeros(shape.nodes, dtype=np.int64)
        self._traffic = Traffic(self.source, shape.rate, 0.0, self._random)
        self._common = Wander(*shape.common, self._random)
        self._own = [
            [Wander(sd, tau, self._random) for sd, tau in (shape.own, *shape.drift)] for _ in range(shape.nodes)
        ]
        self._free_s = np.zeros(shape.nodes)
        self._home = self._random.integers(shape.nodes, size=shape.tenants)
        prompts = np.minimum(self.source.prompts, 32768)
        mean = float(prompts.mean()) * (1.0 - 0.8 * shape.hits) + shape.fixed_tokens
        self._per_token_s = self.scenario.util * shape.nodes / shape.rate / mean

    def begin(self, told: int) -> None:
        """The first `told` nodes run the revision from now on."""
        self.start_s = min(self.start_s, self.at_s)
        self.told[:told] = 1

    def requests(self, ticks: int) -> Requests:
        """Of the next ticks."""
        shape = self.shape
        begin_s, end_s = self.at_s, self.at_s + ticks * WINDOW_S
        at, prompts = self._traffic.until(end_s)
        tick = np.minimum(((at - begin_s) / WINDOW_S).astype(np.int64), ticks - 1)
        node = self._nodes(at)
        levels = np.array([sum(one.steps(ticks) for one in node_own) for node_own in self._own])
        levels += self._common.steps(ticks)
        noise = levels[node, tick]
        hit = self._random.random(at.size) < self._hit_rate(at, node)
        tokens = np.where(hit, 0.2, 1.0) * prompts + shape.fixed_tokens
        slower = self._slower(at, prompts, node)
        prefill = tokens * self._per_token_s * slower * np.exp(noise + shape.sigma * self._random.normal(size=at.size))
        tpot = 0.02 * slower * np.exp(noise + 0.2 * self._random.normal(size=at.size))
        queue = waits_of(at, prefill, node, self._free_s)
        bucket = np.searchsorted(BUCKET_TOPS, prompts)
        self.at_s = end_s
        return Requests(at, tick, node, bucket * len(CLASSES) + hit, prefill, queue, tpot)

    def ticks(self, ticks: int, canary: NDArray[np.bool_]) -> Iterator[tuple[dict[str, Window], Outcomes]]:
        """The next ticks as the judge reads them; canary: bool[nodes]."""
        while ticks > 0:
            count = min(ticks, CHUNK_TICKS)
            yield from self._windows(self.requests(count), count, canary)
            ticks -= count

    def _windows(
        self, found: Requests, ticks: int, canary: NDArray[np.bool_]
    ) -> Iterator[tuple[dict[str, Window], Outcomes]]:
        mine = canary[found.node]
        ttft = found.prefill + found.queue
        lost = np.zeros(found.at.size, dtype=bool)
        if self.scenario.sheds and self.told.any():
            lost = mine & (ttft > np.quantile(ttft[mine], 1.0 - self.scenario.sheds))
        series = {PREFILL.short: found.prefill, TTFT.short: ttft, QUEUE.short: found.queue, TPOT.short: found.tpot}
        tables = {
            (metric, arm): _sketches(ticks, found.tick[kept], found.stratum[kept], values[kept])
            for metric, values in series.items()
            for arm, kept in ((0, ~mine), (1, mine & ~lost))
        }
        for tick in range(ticks):
            here = found.tick == tick
            windows = {metric: Window(tables[metric, 0][tick], tables[metric, 1][tick]) for metric in series}
            yield windows, Outcomes(int((here & ~mine).sum()), 0, int((here & mine).sum()), int((here & lost).sum()))

    def _nodes(self, at: Floats) -> Ints:
        if not self.scenario.sticky:
            return np.asarray(self._random.integers(self.shape.nodes, size=at.size))
        # Each tenant sends in bursts: a burst of a few seconds belongs to one, and goes to its home.
        burst = np.cumsum(self._random.random(at.size) < 1.0 / 15.0)
        tenant = self._random.integers(self.shape.tenants, size=int(burst[-1]) + 1 if burst.size else 1)
        return np.asarray(
            np.where(
                self._random.random(at.size) < 0.5,
                self._home[tenant[burst]],
                self._random.integers(self.shape.nodes, size=at.size),
            )
        )

    def _hit_rate(self, at: Floats, node: Ints) -> Floats:
        rate = np.full(at.size, self.shape.hits)
        mine = (self.told[node] == 1) & (at >= self.start_s)
        if self.scenario.hits is not None:
            rate[mine] = self.scenario.hits
        if self.scenario.cold_s:
            rate[mine] *= np.clip((at[mine] - self.start_s) / self.scenario.cold_s, 0.0, 1.0)
        return rate

    def _slower(self, at: Floats, prompts: Ints, node: Ints) -> Floats:
        scenario = self.scenario
        found = np.where(node == 0, scenario.hardware, 1.0) * np.where(at >= self.start_s, scenario.rush, 1.0)
        mine = (self.told[node] == 1) & (at >= self.start_s)
        if scenario.factor != 1.0 and self.told.sum() >= scenario.from_told:
            hit = mine & (prompts >= scenario.least_prompt)
            if scenario.share < 1.0:
                hit &= self._random.random(at.size) < scenario.share
            found = np.where(hit, found * scenario.factor, found)
        if scenario.warm_s:
            left = np.clip(1.0 - (at - self.start_s) / scenario.warm_s, 0.0, 1.0)
            found = np.where(mine, found * (1.0 + (scenario.warm_factor - 1.0) * left), found)
        return np.asarray(found)


def _sketches(ticks: int, tick: Ints, stratum: Ints, values: Floats) -> list[dict[str, Sketch]]:
    """By tick: stratum to sketch."""
    strata = len(BUCKETS) * len(CLASSES)
    places = np.clip(np.ceil(np.log2(np.maximum(values, 1e-9)) * 2**SCALE).astype(np.int64) - 1, AXIS_MIN, AXIS_MAX)
    flat = (tick * strata + stratum) * AXIS_LENGTH + places - AXIS_MIN
    counts = np.bincount(flat, minlength=ticks * strata * AXIS_LENGTH).reshape(ticks, strata, AXIS_LENGTH)
    totals = np.bincount(tick * strata + stratum, values, minlength=ticks * strata).reshape(ticks, strata)
    some = np.asarray(counts.any(axis=2))
    return [
        {
            f"{BUCKETS[one // len(CLASSES)]} {CLASSES[one % len(CLASSES)]}": Sketch(
                counts[place, one], total=float(totals[place, one]), minimum=0.0, maximum=1000.0
            )
            for one in np.flatnonzero(some[place])
        }
        for place in range(ticks)
    ]
