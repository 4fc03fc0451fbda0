"""What real engines are asked: prompts as tokens of the bundled model, of a tenant, as the world is now."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Self

import numpy as np
from tokenizers import Tokenizer

from agents.engine.options import BUNDLED
from benchmarks.attribution_measures.simulated_pool import World, drawn_of

FIRST, TOKENS = 10, 2000
"""Ids that are nothing special."""
MOST_OUTPUTS = 700
PREFIX = 0.8
"""Of a prompt that hits, what it begins with like all others of its length."""
PHRASE = "    def name(self):\n        return self._name\n\n"
"""Of a prompt that says the same again and again: the bundled model goes on with it."""


@dataclass(frozen=True)
class EngineWorld(World):
    """outputs: tokens of an answer; temperature: 0 repeats itself, which drafts are good at; repeats: share of prompts
    that end with a phrase again and again, so that answers do; knobs: those of the engine that are otherwise than
    usual. A node in `slow` has a machine that is so much slower in all it does; one in `temperatures` is sent requests
    of a temperature of its own."""

    outputs: int = 24
    repeats: float = 0.0
    temperature: float = 0.0
    temperatures: Mapping[str, float] = field(default_factory=dict)
    knobs: Mapping[str, object] = field(default_factory=dict)

    def at(self, node: str) -> Self:
        """As it is at one node."""
        return replace(self, temperature=self.temperatures.get(node, self.temperature))


@dataclass(frozen=True)
class Asked:
    """One request. tokens: of the prompt; outputs: most tokens of the answer."""

    tenant: str
    tokens: list[int]
    outputs: int
    temperature: float
    seed: int


@cache
def _phrase() -> list[int]:
    tokenizer = Tokenizer.from_file(str(BUNDLED / "tokenizer.json"))
    found: list[int] = tokenizer.encode(PHRASE, add_special_tokens=False).ids
    return found


def drawn_request(world: EngineWorld, chance: np.random.Generator) -> Asked:
    tenant = drawn_of(world.tenants, chance)
    length = drawn_of(world.lengths_of.get(tenant, world.lengths), chance)
    prompt = max(int(length * chance.lognormal(0.0, 0.1)), 4)
    same = int(PREFIX * length) if chance.random() < world.hit_share else 0
    usual = np.random.default_rng(length).integers(FIRST, FIRST + TOKENS, min(same, prompt - 1))
    own = chance.integers(FIRST, FIRST + TOKENS, prompt - usual.size)
    if chance.random() < world.repeats:
        own[own.size // 4 :] = np.resize(_phrase(), own.size - own.size // 4)
    tokens = [*usual.tolist(), *own.tolist()]
    outputs = min(2 + int(chance.geometric(1 / world.outputs)), MOST_OUTPUTS)
    return Asked(tenant, tokens, outputs, world.temperature, int(chance.integers(2**31)))
