"""Surfaces whose truth is known, and what a run on them would have measured. They are formulas: nobody measured them.

`narrow`: a quarter of what passes keeps the limits, and the default takes about 2.5 times as long as the best.
`broken`: a seventh does, and the default breaks a limit. A step costs so much, and a token more; what waits grows with
the load; int4 fails the quality gate, and int8 with large steps runs out of memory. Costs, traffic and limits are drawn
anew for each seed. `flat`: nothing matters, or everything but the default is better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np

from controlplane.contract.knobs import EngineConfig, canonical_json
from tuner.search.objective import Assessment, crashed
from tuner.search.quality_gate import TOP1
from tuner.search.space import Capabilities, Space, build_space

COMMON = 0.7
"""Correlation of a run's noise between its objective and its limits: a slow moment slows both."""


@dataclass(frozen=True)
class Truth:
    """The expected figures of one configuration. `limits`: measured / limit by name. `fails`: the gate, or a crash."""

    objective: float
    limits: Mapping[str, float] = field(default_factory=dict)
    fails: str = ""

    @property
    def feasible(self) -> bool:
        return not self.fails and all(ratio <= 1.0 for ratio in self.limits.values())


@dataclass(frozen=True)
class Surface:
    """`seen`: what the search's slice would show; `fresh`: another slice. Both by the canonical configuration."""

    name: str
    space: Space
    default: dict[str, Any]
    seen: Mapping[str, Truth]
    fresh: Mapping[str, Truth]
    noise: float

    @property
    def limits(self) -> list[str]:
        return sorted(next(iter(self.seen.values())).limits)

    def measure(self, knobs: Mapping[str, Any], random: np.random.Generator, *, fresh: bool = False) -> Assessment:
        """One run: lognormal noise of sd `noise`, much of it common to all figures of the run."""
        truth = (self.fresh if fresh else self.seen)[canonical_json(knobs)]
        if truth.fails == TOP1:
            return Assessment(None, {TOP1: 1.5})
        if truth.fails:
            return crashed()
        shared = float(random.standard_normal())
        own = math.sqrt(1 - COMMON**2) * random.standard_normal(1 + len(truth.limits))
        noise = np.exp(self.noise * (COMMON * shared + own))
        excess = {
            name: ratio * float(factor) - 1.0
            for (name, ratio), factor in zip(sorted(truth.limits.items()), noise[1:], strict=True)
        }
        return Assessment(truth.objective * float(noise[0]), excess)

    def best(self, *, fresh: bool = False) -> float:
        table = self.fresh if fresh else self.seen
        return min(truth.objective for truth in table.values() if truth.feasible)

    def regret(self, knobs: Mapping[str, Any] | None, *, fresh: bool = False) -> float:
        """How much slower than the best feasible; one that is not feasible counts as the default."""
        table = self.fresh if fresh else self.seen
        truth = table[canonical_json(self.default if knobs is None else knobs)]
        if not truth.feasible:
            truth = table[canonical_json(self.default)]
        return truth.objective / self.best(fresh=fresh) - 1.0

    def describe(self) -> str:
        feasible = fmean(truth.feasible for truth in self.seen.values())
        kept = "" if self.seen[canonical_json(self.default)].feasible else ", breaks a limit"
        off = self.seen[canonical_json(self.default)].objective / self.best() - 1.0
        return (
            f"{self.name}: {len(self.seen)} configurations, {feasible:.0%} feasible, noise {self.noise:.1%}, "
            f"the default {off:.0%} off{kept}"
        )


def configurations(space: Space) -> list[dict[str, Any]]:
    """All of them, each once."""
    names = list(space.values)
    found = {}
    for values in product(*space.values.values()):
        knobs = space.complete(dict(zip(names, values, strict=True)))
        if not space.infeasible(knobs):
            found[canonical_json(knobs)] = knobs
    return list(found.values())


@dataclass(frozen=True)
class _World:
    """An engine and its traffic, drawn anew for each seed, so that no search can have been made for one of them."""

    weights_ms: float
    int8: float  # Of the time that a step and a token take; above 1 where the processor is no friend of it.
    token_ms: float
    draft_ms: float
    acceptance: float
    prompt: float
    answer: float
    load: float  # Of one node with an ordinary setting.
    int8_tokens: int  # Steps so large run out of memory with int8.

    @classmethod
    def drawn(cls, random: np.random.Generator) -> _World:
        return cls(
            weights_ms=float(random.uniform(2, 8)),
            int8=float(random.uniform(0.5, 1.15)),
            token_ms=float(random.uniform(0.02, 0.1)),
            draft_ms=float(random.uniform(0.2, 1.5)),
            acceptance=float(random.uniform(0.25, 0.8)),
            prompt=float(random.uniform(150, 1500)),
            answer=float(random.uniform(15, 150)),
            load=float(random.uniform(0.3, 0.8)),
            int8_tokens=int(random.choice([512, 1024, 1536, 4096])),
        )

    def figures(self, knobs: Mapping[str, Any]) -> tuple[float, float, float]:
        """End to end, time to first token, time between tokens: seconds."""
        tokens, drafts = knobs["max_num_batched_tokens"], knobs["num_speculative_tokens"]
        piece = min(knobs["prefill_chunk_size"] or tokens, tokens)
        speed = {"none": 1.0, "int8": self.int8, "int4": 0.8}[knobs["quantization"]]

        def costs(drafts: int, piece: float, tokens: float, speed: float) -> tuple[float, float, float]:
            accepted = (1 - self.acceptance ** (drafts + 1)) / (1 - self.acceptance)
            decode_ms = (speed * self.weights_ms + self.draft_ms * drafts) / accepted
            mixed_ms = speed * (self.weights_ms + self.token_ms * tokens) + self.draft_ms * drafts
            steps = math.ceil(self.prompt / piece)
            prefill_ms = (
                speed * (steps * self.weights_ms + self.token_ms * self.prompt) + steps * self.draft_ms * drafts
            )
            return decode_ms, mixed_ms, prefill_ms

        decode_ms, mixed_ms, prefill_ms = costs(drafts, piece, tokens, speed)
        usual_decode, _, usual_prefill = costs(0, 512, 512, 1.0)
        work = (prefill_ms + self.answer * decode_ms / 4) / (usual_prefill + self.answer * usual_decode / 4)
        busy = self.load * work
        # Beyond what can be served a backlog grows with the replay.
        waiting_ms = prefill_ms * 1.5 * (busy / (1 - busy) if busy < 0.95 else 19 + 200 * (busy - 0.95))
        ttft_ms = prefill_ms + waiting_ms
        e2e_ms = ttft_ms + self.answer * (decode_ms + 0.35 * min(busy, 1.0) * mixed_ms)
        return e2e_ms / 1000, ttft_ms / 1000, mixed_ms / 1000


def _formula_surface(name: str, seed: int, noise: float, *, share: float, default_keeps: bool) -> Surface:
    """Limits lie so that `share` of what passes keeps them. The default takes about 2.5 times as long as the best."""
    random = np.random.default_rng(seed)
    world = _World.drawn(random)
    start = EngineConfig().knobs()
    space = build_space({}, start, Capabilities(quantization=("none", "int8", "int4")))
    found = {canonical_json(knobs): (knobs, world.figures(knobs)) for knobs in configurations(space)}
    fails = {key: _failure(world, knobs) for key, (knobs, _) in found.items()}
    ran = np.array([figures for key, (_, figures) in found.items() if not fails[key]])
    ttft = float(np.quantile(ran[:, 1], 0.7))
    itl = float(np.quantile(ran[ran[:, 1] <= ttft, 2], min(1.0, share / 0.7)))
    table = {
        key: Truth(figures[0], {"itl:0.99": figures[2] / itl, "ttft:0.95": figures[1] / ttft}, fails[key])
        for key, (_, figures) in found.items()
    }
    best = min(truth.objective for truth in table.values() if truth.feasible)
    wanted = [key for key, truth in table.items() if not truth.fails and truth.feasible == default_keeps]
    wanted = [key for key in wanted if found[key][0]["quantization"] == "none"]
    default = min(wanted, key=lambda key: abs(math.log(table[key].objective / best / 2.5)))
    return Surface(name, space, found[default][0], table, table, noise)


def _failure(world: _World, knobs: Mapping[str, Any]) -> str:
    if knobs["quantization"] == "int4":
        return TOP1
    return "crash" if knobs["quantization"] == "int8" and knobs["max_num_batched_tokens"] >= world.int8_tokens else ""


@cache
def narrow(seed: int = 0, noise: float = 0.1) -> Surface:
    return _formula_surface("narrow", seed, noise, share=0.28, default_keeps=True)


@cache
def broken(seed: int = 0, noise: float = 0.1) -> Surface:
    return _formula_surface("broken", 1000 + seed, noise, share=0.14, default_keeps=False)


@cache
def flat(noise: float = 0.1, gain: float = 0.0) -> Surface:
    """Nothing matters; or all but the default are `gain` better."""
    default = EngineConfig().knobs()
    space = build_space({}, default, Capabilities(quantization=("none", "int8")))
    table = {
        canonical_json(knobs): Truth(1.0 if knobs == default else 1.0 - gain, {"itl:0.99": 0.5})
        for knobs in configurations(space)
    }
    return Surface("flat", space, default, table, table, noise)
