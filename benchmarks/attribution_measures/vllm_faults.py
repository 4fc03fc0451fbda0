"""Faults of nine kinds that real vLLM engines can be given: what they are sent, their limits, a slower machine.

More of one tenant is none of them: vLLM does not tell whose a request is. Of a busy host the engine's slowness is real,
what the host is said to be is not.
"""

import random
from collections.abc import Callable

from benchmarks.attribution_measures import engine_faults
from benchmarks.attribution_measures.engine_faults import world
from benchmarks.attribution_measures.faults import ENGINE, HOST_FIGURES, Fault
from benchmarks.attribution_measures.vllm_nodes import NAMES

STAGES = ("queue", *ENGINE)
AS_EMBEDDED = ("load", "prompt_mix", "cache_miss", "drafts", "answers")


def _one_node(chance: random.Random) -> Fault:
    node, factor = chance.choice(NAMES), chance.uniform(2.0, 3.0)
    slow = {("node", node): (ENGINE, factor)}
    return Fault("one_node", f"{node} x{factor:.2f}", world(slow=slow), STAGES, "one_node", ("node", node))


def _host(chance: random.Random) -> Fault:
    node, factor = chance.choice(NAMES), chance.uniform(2.0, 3.0)
    what = chance.choice(list(HOST_FIGURES))
    changed = world(slow={("node", node): (ENGINE, factor)}, host={node: HOST_FIGURES[what]})
    return Fault("host", f"{node} {what} x{factor:.2f}", changed, STAGES, "host", ("node", node))


def _config(chance: random.Random) -> Fault:
    name, value = chance.choice((("max_num_batched_tokens", 8), ("max_num_batched_tokens", 16), ("max_num_seqs", 1)))
    stages = ("queue",) if name == "max_num_seqs" else ("prefill", "queue")
    changed = world(knobs={name: value}, revision=2)
    return Fault("config", f"{name} {value}", changed, stages, "config_change", None, (("revision", "2"),))


KINDS: dict[str, Callable[[random.Random], Fault]] = {
    **{kind: engine_faults.KINDS[kind] for kind in AS_EMBEDDED},
    "one_node": _one_node,
    "host": _host,
    "config": _config,
    "node_drafts": engine_faults.KINDS["node_drafts"],
}
