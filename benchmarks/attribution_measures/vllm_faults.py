"""Faults of five kinds that real vLLM engines can be given: what they are sent, their limits, a slower machine.

More of one tenant is none of them: vLLM does not tell whose a request is. Nor are fewer cache hits and drafts that are
accepted less: where six prompts of ten hit and little is drafted, its users hardly feel them.
"""

import random
from collections.abc import Callable
from typing import Any

from benchmarks.attribution_measures.engine_requests import EngineWorld
from benchmarks.attribution_measures.faults import ENGINE, Fault, with_share
from benchmarks.attribution_measures.vllm_nodes import NAMES

RATE = 2.0
"""Requests a second over the pool."""
LONG = 900
LENGTHS = ((40, 0.3), (300, 0.66), (LONG, 0.04))
BUCKET = "<=2k"
"""Of the long ones."""
STAGES = ("queue", *ENGINE)


def world(**otherwise: Any) -> EngineWorld:
    return EngineWorld(**{"rate": RATE, "lengths": LENGTHS, **otherwise})


def _load(chance: random.Random) -> Fault:
    factor = chance.uniform(4.4, 5.2)
    return Fault("load", f"x{factor:.2f}", world(rate=RATE * factor), ("queue",), "load")


def _one_node(chance: random.Random) -> Fault:
    node, factor = chance.choice(NAMES), chance.uniform(2.0, 3.0)
    slow = {("node", node): (ENGINE, factor)}
    return Fault("one_node", f"{node} x{factor:.2f}", world(slow=slow), STAGES, "one_node", ("node", node))


def _prompt_mix(chance: random.Random) -> Fault:
    share = chance.uniform(0.25, 0.45)
    changed = world(lengths=with_share(LENGTHS, LONG, share))
    place = ("prompt_bucket", BUCKET)
    return Fault("prompt_mix", f"4 % to {share:.0%}", changed, ("prefill", "queue"), "prompt_mix", place)


def _config(chance: random.Random) -> Fault:
    name, value = chance.choice((("max_num_batched_tokens", 8), ("max_num_batched_tokens", 16), ("max_num_seqs", 1)))
    stages = ("queue",) if name == "max_num_seqs" else ("prefill", "queue")
    changed = world(knobs={name: value}, revision=2)
    return Fault("config", f"{name} {value}", changed, stages, "config_change", None, (("revision", "2"),))


def _preemption(chance: random.Random) -> Fault:
    """Answers get so long that the cache does not hold those that run."""
    outputs = round(chance.uniform(250, 400))
    return Fault("preemption", f"{outputs} tokens", world(outputs=outputs), ("decode", "queue"), "preemption")


KINDS: dict[str, Callable[[random.Random], Fault]] = {
    "load": _load,
    "one_node": _one_node,
    "prompt_mix": _prompt_mix,
    "config": _config,
    "preemption": _preemption,
}
