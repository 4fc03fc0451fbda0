"""Pools that serve: real arrivals, a queue a node, machines that drift. What a detector sees of them, tick by tick.

A request's prefill takes (fixed + per token x prompt) seconds, times noise of its own (lognormal), times what the whole
pool has in common at that moment: fast noise (an Ornstein-Uhlenbeck process of a minute), and the drift of machines
(slow ones, and small jumps). It waits for its node in order of arrival (Lindley's recursion), so that a busy pool's
time to first token holds what the engine did not do. Its time per output token is a step's, over the tokens that drafts
bring. Nothing here is learnt from the detector, nor the other way round.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.arrivals import Lap, Traffic
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MAX, AXIS_MIN, SCALE
from controlplane.contract.metrics import WINDOW_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BUCKET_TOPS = (128, 512, 2048, 8192, 32768)
BUCKETS = ("<=128", "<=512", "<=2k", "<=8k", "<=32k", ">32k")
CHUNK_S = 3600.0
STEP_S, DRAFTS, ACCEPTED, UNGUESSED = 0.05, 3, (6.0, 4.0), 0.3
"""A step's seconds, its drafts, what share of these is accepted (Beta), and the share of requests that none fits."""


@dataclass(frozen=True)
class Fault:
    """What is wrong from `at_s` on: `factor` on the prefill of those it hits, coming in over `ramp_s`; or `no_drafts`:
    none is accepted."""

    at_s: float
    factor: float
    share: float = 1.0
    least_prompt: int = 0
    node: int | None = None
    ramp_s: float = 0.0
    no_drafts: bool = False


@dataclass(frozen=True)
class Shape:
    """rate: requests a second at the busiest moment; util: of a node, at that moment; depth: of the daily curve.

    slow: (sd, time constant in s) of each slow process; jumps: (sd, mean seconds between) of lasting
    steps, to a level drawn anew; apart: as slow, of each node by itself; hardware: sd of how the nodes differ for good.
    """

    name: str
    rate: float
    util: float = 0.3
    depth: float = 0.0
    nodes: int = 4
    sigma: float = 0.3
    fast_sd: float = 0.05
    fast_tau_s: float = 60.0
    slow: tuple[tuple[float, float], ...] = ()
    jumps: tuple[float, float] | None = None
    apart: tuple[tuple[float, float], ...] = ()
    hardware: float = 0.0
    fixed_tokens: int = 250


class Wander:
    """An Ornstein-Uhlenbeck process sampled each tick."""

    def __init__(self, sd: float, tau_s: float, random: np.random.Generator) -> None:
        self._sd, self._keep, self._random = sd, math.exp(-WINDOW_S / tau_s), random
        self._at = sd * float(random.normal())

    def steps(self, count: int) -> Floats:
        fresh = self._sd * math.sqrt(1.0 - self._keep**2) * self._random.normal(size=count)
        made = list(itertools.accumulate(fresh.tolist(), lambda at, step: self._keep * at + step, initial=self._at))
        self._at = made[-1]
        return np.array(made[1:])


@dataclass(frozen=True)
class Chunk:
    """Ticks in order. tick, bucket, node, prompts: int64[requests], the last in tokens; places: by metric,
    int64[requests] on the histogram's axis.

    arrived: int64[ticks].
    """

    start_s: float
    tick: Ints
    bucket: Ints
    node: Ints
    prompts: Ints
    places: Mapping[str, Ints]
    arrived: Ints

    @cached_property
    def prefill(self) -> Ints:
        """int64[ticks, buckets, axis]."""
        return self._by_bucket("prefill")

    @cached_property
    def ttft(self) -> Ints:
        """int64[ticks, buckets, axis]."""
        return self._by_bucket("ttft")

    def pool(self, metric: str) -> Ints:
        """All prompts together, int64[ticks, axis]."""
        ticks = self.arrived.size
        flat = self.tick * AXIS_LENGTH + self.places[metric]
        return np.bincount(flat, minlength=ticks * AXIS_LENGTH).reshape(ticks, AXIS_LENGTH)

    def used(self, metric: str) -> tuple[int, Ints]:
        """The part of the axis that holds any: where it begins, and int64[ticks, buckets, width]."""
        places = self.places[metric]
        low = int(places.min()) if places.size else 0
        width = int(places.max()) + 1 - low if places.size else 1
        ticks = self.arrived.size
        flat = (self.tick * len(BUCKETS) + self.bucket) * width + places - low
        return low, np.bincount(flat, minlength=ticks * len(BUCKETS) * width).reshape(ticks, len(BUCKETS), width)

    def _by_bucket(self, metric: str) -> Ints:
        low, counts = self.used(metric)
        whole = np.zeros((*counts.shape[:2], AXIS_LENGTH), dtype=np.int64)
        whole[..., low : low + counts.shape[2]] = counts
        return whole


@dataclass
class World:
    """`chunks` goes on where it was.

    surge: from when until when the load is how many times the usual; mix: from when on which share of the prompts up
    to 2k tokens is kept.
    """

    shape: Shape
    source: Lap
    seed: tuple[int, ...]
    faults: tuple[Fault, ...] = ()
    surge: tuple[float, float, float] | None = None
    mix: tuple[float, float] | None = None
    at_s: float = 0.0
    _free_s: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        shape = self.shape
        self._traffic = Traffic(
            self.source, shape.rate * (self.surge[2] if self.surge else 1.0), shape.depth, self._random
        )
        kinds = [(shape.fast_sd, shape.fast_tau_s), *shape.slow]
        self._common = [Wander(sd, tau, self._random) for sd, tau in kinds if sd]
        self._level = 0.0
        # Drawn beside the rest, so that worlds whose nodes are alike stay as they were.
        beside = np.random.default_rng((*self.seed, 77))
        self._apart = [[Wander(sd, tau, beside) for sd, tau in shape.apart] for _ in range(shape.nodes)]
        self._drafts = np.random.default_rng((*self.seed, 78))
        self._hardware = shape.hardware * beside.normal(size=shape.nodes)
        self._free_s = np.zeros(shape.nodes)
        mean = float(np.minimum(self.source.prompts, 32768).mean()) + shape.fixed_tokens
        self._per_token_s = shape.util * shape.nodes / shape.rate / mean

    def chunks(self, until_s: float) -> Iterator[Chunk]:
        while self.at_s < until_s - 1e-6:
            yield self._chunk(min(until_s, self.at_s + CHUNK_S))

    def _chunk(self, end_s: float) -> Chunk:
        ticks = round((end_s - self.at_s) / WINDOW_S)
        at, prompts = self._traffic.until(end_s)
        if self.surge is not None:
            begin, stop, factor = self.surge
            kept = ((at >= begin) & (at < stop)) | (self._random.random(at.size) < 1.0 / factor)
            at, prompts = at[kept], prompts[kept]
        if self.mix is not None:
            begin, share = self.mix
            kept = (at < begin) | (prompts > 2048) | (self._random.random(at.size) < share)
            at, prompts = at[kept], prompts[kept]
        tick = np.minimum(((at - self.at_s) / WINDOW_S).astype(np.int64), ticks - 1)
        node = self._random.integers(self.shape.nodes, size=at.size)
        log = self._common_noise(ticks)[tick] + self.shape.sigma * self._random.normal(size=at.size)
        if self.shape.apart or self.shape.hardware:
            log += self._noise_apart(ticks)[node, tick]
        service = np.asarray((self.shape.fixed_tokens + prompts) * self._per_token_s * np.exp(log), dtype=np.float64)
        for fault in self.faults:
            service *= self._fault(fault, at, prompts, node)
        waiting = waits_of(at, service, node, self._free_s)
        self.note(at, prompts, service, waiting)
        bucket = np.searchsorted(BUCKET_TOPS, prompts)
        chunk = Chunk(
            self.at_s,
            tick,
            bucket,
            node,
            prompts,
            {
                "prefill": _places(service),
                "ttft": _places(service + waiting),
                "tpot": _places(STEP_S * np.exp(log) / self._tokens_a_step(at, node)),
            },
            np.bincount(tick, minlength=ticks),
        )
        self.at_s = end_s
        return chunk

    def note(self, at: Floats, prompts: Ints, service: Floats, waiting: Floats) -> None:
        """Told of each chunk's requests: when they came, their tokens, and the seconds of service and of waiting."""

    def _common_noise(self, ticks: int) -> Floats:
        total = np.zeros(ticks)
        for one in self._common:
            total += one.steps(ticks)
        if self.shape.jumps is not None:
            sd, every_s = self.shape.jumps
            levels = np.concatenate([[self._level], sd * self._random.normal(size=ticks)])
            jumped = self._random.random(ticks) < WINDOW_S / every_s
            level = levels[np.maximum.accumulate(np.where(jumped, np.arange(1, ticks + 1), 0))]
            self._level = float(level[-1])
            total += level
        return total

    def _noise_apart(self, ticks: int) -> Floats:
        """Of each node, float64[nodes, ticks]."""
        found = np.repeat(self._hardware[:, None], ticks, axis=1)
        for node, kinds in enumerate(self._apart):
            for one in kinds:
                found[node] += one.steps(ticks)
        return found

    def _tokens_a_step(self, at: Floats, node: Ints) -> Floats:
        """Of each request, with its drafts: of those of one request as many are accepted all the time, or none."""
        drafts = DRAFTS * self._drafts.beta(*ACCEPTED, size=at.size)
        none = self._drafts.random(at.size) < UNGUESSED
        for fault in self.faults:
            if fault.no_drafts:
                none |= (at >= fault.at_s) & ((fault.node is None) | (node == fault.node))
        return np.where(none, 1.0, 1.0 + drafts)

    def _fault(self, fault: Fault, at: Floats, prompts: Ints, node: Ints) -> Floats:
        hit = (at >= fault.at_s) & (prompts >= fault.least_prompt)
        if fault.node is not None:
            hit &= node == fault.node
        if fault.share < 1.0:
            hit &= self._random.random(at.size) < fault.share
        grown = np.clip((at - fault.at_s) / fault.ramp_s, 0.0, 1.0) if fault.ramp_s else np.ones_like(at)
        return np.where(hit, fault.factor**grown, 1.0)


def waits_of(at: Floats, service: Floats, node: Ints, free_s: Floats) -> Floats:
    """Seconds that each request waits for its node, in order of arrival; `free_s`, when each node is free, goes on."""
    found = np.zeros_like(at)
    for one in range(free_s.size):
        mine = np.flatnonzero(node == one)
        if not mine.size:
            continue
        # The time at which the node is free before each request: a running maximum of arrival less work so far.
        work = np.cumsum(service[mine])
        before = work - service[mine]
        free = np.maximum(np.maximum.accumulate(at[mine] - before), free_s[one]) + before
        found[mine] = free - at[mine]
        free_s[one] = free[-1] + service[mine][-1]
    return found


def _places(values_s: Floats) -> Ints:
    places = np.ceil(np.log2(values_s) * 2**SCALE).astype(np.int64) - 1
    return np.asarray(np.clip(places, AXIS_MIN, AXIS_MAX) - AXIS_MIN)
