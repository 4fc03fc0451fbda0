"""Synthetic traffic with the shape of a real trace: bursty arrivals, heavy-tailed lengths, shared prefixes. Seeded.

Guarantee: equal shape and seed give equal requests, for ever and in every process. Gaps between arrivals are gamma
distributed with the wanted coefficient of variation (the renewal model of BurstGPT, arXiv:2401.17644); lengths are
lognormal, cut at the limits. The medians and sigmas of CONV and CODE are fitted to the Azure 2023 traces (Splitwise,
ISCA 2024). A prompt is: a system prompt shared by many, then a conversation whose every turn repeats all the turns
before it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from tuner.workload.trace import hash_id, workload_of


@dataclass(frozen=True)
class Shape:
    """What traffic looks like. Lengths in tokens; a sigma is the standard deviation of a length's logarithm."""

    arrival_cv: float = 1.5
    input_median: float = 1020.0
    input_sigma: float = 0.98
    output_median: float = 129.0
    output_sigma: float = 0.86
    max_input: int = 14050
    max_output: int = 1000
    min_input: int = 8
    min_output: int = 2
    system_prompts: int = 3
    system_share: float = 0.8  # Of new conversations, those that begin with one of the system prompts.
    system_tokens: int = 256
    turns: float = 2.0  # Mean turns of a conversation, geometrically distributed.
    open_conversations: int = 64  # Conversations that may continue; the oldest is forgotten first.
    block_size: int = 16


CONV = Shape()
CODE = Shape(
    arrival_cv=5.0, input_median=1469, input_sigma=1.36, output_median=13, output_sigma=0.85, max_input=7437,
    max_output=1899, turns=1.0,
)  # fmt: skip
RAG = Shape(
    input_median=3000, input_sigma=0.25, output_median=60, output_sigma=0.5, max_input=6000, max_output=400, turns=1.0,
)  # fmt: skip
"""Answers out of passages: as many passages for each question, so prompts are nearly of one length. Not fitted."""
AGENTS = Shape(
    arrival_cv=2.0, input_median=3600, input_sigma=0.9, output_median=120, output_sigma=0.9, max_input=24000,
    max_output=2000, system_prompts=6, system_share=0.95, system_tokens=1536, turns=2.6, open_conversations=96,
)  # fmt: skip
"""Loops of tool calls: long instructions that many share, then turns that repeat all before them and add what a tool
said; more than half of the prompts' tokens were seen before. Not fitted."""
SHAPES = {"chat": CONV, "code": CODE, "rag": RAG, "agents": AGENTS}


def fitted(shape: Shape, *, max_input: int, max_output: int) -> Shape:
    """`shape` scaled so that its limits are `max_input` and `max_output`, its tails as heavy as before."""
    inputs, outputs = max_input / shape.max_input, max_output / shape.max_output
    return replace(
        shape,
        input_median=shape.input_median * inputs,
        output_median=max(float(shape.min_output), shape.output_median * outputs),
        system_tokens=max(shape.block_size, int(shape.system_tokens * inputs)),
        max_input=max_input,
        max_output=max_output,
    )


class Arrival(NamedTuple):
    """`gap` is the time since the arrival before, in units of the mean gap, so that a caller sets the rate."""

    gap: float
    input_length: int
    output_length: int
    hash_ids: list[int]


@dataclass
class _Conversation:
    number: int
    system: int | None
    length: int = 0  # Tokens of all turns so far, answers included.
    ids: list[int] = field(default_factory=list)  # Of its longest prompt's blocks.


class _Prompts:
    """Which conversation an arrival belongs to, and its prompt's blocks."""

    def __init__(self, shape: Shape, seed: int, random: np.random.Generator) -> None:
        self._shape, self._seed, self._random = shape, seed, random
        self._open: list[_Conversation] = []
        self._count = itertools.count()
        self._systems: dict[int, list[int]] = {}

    def next(self, input_length: int, output_length: int) -> tuple[int, list[int]]:
        """The prompt's length and block ids. A drawn length is that of the conversation's new turn."""
        shape, random = self._shape, self._random
        continues = random.random() < 1.0 - 1.0 / max(1.0, shape.turns)
        system = int(random.integers(shape.system_prompts)) if shape.system_prompts else None
        if random.random() >= shape.system_share:
            system = None
        place = int(random.integers(len(self._open))) if self._open else 0
        if continues and self._open:
            conversation = self._open.pop(place)
            # A turn adds what makes a conversation's mean prompt as long as the drawn one, not the whole draw again.
            added = max(shape.min_input, int(input_length / max(1.0, shape.turns)))
            if conversation.length + added > shape.max_input:
                conversation = _Conversation(next(self._count), system)
        else:
            conversation, added = _Conversation(next(self._count), system), input_length
        length = min(shape.max_input, max(conversation.length + added, shape.min_input))
        conversation.length = length + output_length
        self._open.append(conversation)
        del self._open[: -shape.open_conversations]
        return length, self._blocks(conversation, length)

    def _blocks(self, conversation: _Conversation, length: int) -> list[int]:
        """The conversation's first, of which every turn repeats those of the turns before it."""
        blocks, ids = length // self._shape.block_size, conversation.ids
        if conversation.system is not None:
            ids += self._system_blocks(conversation.system)[len(ids) : blocks]
        ids += [hash_id(self._seed, "conversation", conversation.number, block) for block in range(len(ids), blocks)]
        return ids[:blocks]

    def _system_blocks(self, system: int) -> list[int]:
        if system not in self._systems:
            shared = range(self._shape.system_tokens // self._shape.block_size)
            self._systems[system] = [hash_id(self._seed, "system", str(system), block) for block in shared]
        return self._systems[system]


def arrivals(shape: Shape, seed: int) -> Iterator[Arrival]:
    """Endless traffic. Take a conversation's ids as chained: two prompts share a prefix while their ids are equal."""
    random = np.random.default_rng(seed)
    prompts = _Prompts(shape, seed, random)
    form = 1.0 / shape.arrival_cv**2
    while True:
        gap = float(random.gamma(form, 1.0 / form))
        wanted = shape.input_median * math.exp(shape.input_sigma * float(random.standard_normal()))
        answer = shape.output_median * math.exp(shape.output_sigma * float(random.standard_normal()))
        output_length = round(min(max(answer, shape.min_output), shape.max_output))
        input_length, ids = prompts.next(round(min(max(wanted, shape.min_input), shape.max_input)), output_length)
        yield Arrival(gap, input_length, output_length, ids)


def generate(shape: Shape, *, seed: int, rate_per_s: float, requests: int, pool: str = "generated") -> Workload:
    """A finite workload of `requests` arrivals at a mean of `rate_per_s`."""
    now_ms, found = 0.0, []
    for arrival in itertools.islice(arrivals(shape, seed), requests):
        now_ms += arrival.gap * 1000.0 / rate_per_s
        found.append(
            WorkloadRequest(
                timestamp=now_ms,
                input_length=arrival.input_length,
                output_length=arrival.output_length,
                hash_ids=arrival.hash_ids,
            )
        )
    return workload_of(found, pool=pool, block_size=shape.block_size)
