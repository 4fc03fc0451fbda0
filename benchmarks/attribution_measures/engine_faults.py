"""Faults of nine kinds that real engines can be given: what they are sent, how they are set, on what machine.

How strong they are is set by what requests take: TTFT p95, or of drafts the time per token, by half at least where the
engine lets it.
"""

import random
from collections.abc import Callable
from typing import Any

from benchmarks.attribution_measures.engine_nodes import NAMES
from benchmarks.attribution_measures.engine_requests import EngineWorld
from benchmarks.attribution_measures.faults import Fault, sending_more, with_share

RATE = 2.0
"""Requests a second over the pool."""
LONG = 900
LENGTHS = ((40, 0.3), (400, 0.66), (LONG, 0.04))
HIT_SHARE = 0.95
"""As where one long instruction stands before all: prompts that miss are what users wait for."""
REPEATS, OUTPUTS = 0.9, 32
"""As where answers say again what the prompt does: drafts are used."""
TENANTS = (("web", 0.6), ("app", 0.3), ("batch", 0.1))
BATCH_IS_LONG = {"batch": ((40, 0.3), (400, 0.4), (LONG, 0.3))}
BUCKET = "<=2k"
"""Of the long ones."""
MORE_PROMPT = ("prefill", "queue", "decode")
"""Where more of prompts is computed: that it is waited for is as right, and that tokens come slower of the same steps
(from 4 to 75 % of long prompts most of what e2e grows by is decode's)."""

MORE_STEPS = ("decode", "queue")
"""Where an answer takes more steps it holds its seat for longer: what is alerted on may be that others wait for one."""


def world(**otherwise: Any) -> EngineWorld:
    usual = {"rate": RATE, "lengths": LENGTHS, "tenants": TENANTS, "lengths_of": BATCH_IS_LONG}
    answers = {"hit_share": HIT_SHARE, "repeats": REPEATS, "outputs": OUTPUTS}
    return EngineWorld(**{**usual, **answers, **otherwise})


def _load(chance: random.Random) -> Fault:
    factor = chance.uniform(4.4, 5.2)
    return Fault("load", f"x{factor:.2f}", world(rate=RATE * factor), ("queue",), "load")


def _one_node(chance: random.Random) -> Fault:
    node, factor = chance.choice(NAMES), chance.uniform(2.0, 3.0)
    slow = {("node", node): (("prefill", "decode"), factor)}
    stages = ("queue", "prefill", "decode")
    return Fault("one_node", f"{node} x{factor:.2f}", world(slow=slow), stages, "one_node", ("node", node))


def _prompt_mix(chance: random.Random) -> Fault:
    share = chance.uniform(0.6, 0.8)
    lengths = with_share(LENGTHS, LONG, share)
    place = ("prompt_bucket", BUCKET)
    changed = world(lengths=lengths)
    return Fault("prompt_mix", f"4 % to {share:.0%}", changed, MORE_PROMPT, "prompt_mix", place)


def _cache_miss(chance: random.Random) -> Fault:
    share = chance.uniform(0.0, 0.1)
    place = ("cache_class", "miss")
    return Fault(
        "cache_miss",
        f"{HIT_SHARE:.0%} to {share:.0%}",
        world(hit_share=share),
        MORE_PROMPT,
        "cache_miss",
        place,
    )


def _tenant(chance: random.Random) -> Fault:
    times = chance.uniform(13.0, 18.0)
    tenants = sending_more(TENANTS, "batch", times)
    changed = world(tenants=tenants, rate=RATE * sum(weight for _, weight in tenants))
    return Fault("tenant", f"x{times:.1f}", changed, MORE_PROMPT, "tenant_mix", ("tenant", "batch"))


def _config(chance: random.Random) -> Fault:
    name, value = chance.choice((("max_num_batched_tokens", 16), ("prefill_chunk_size", 8), ("max_num_seqs", 1)))
    changed = world(knobs={name: value}, revision=2)
    stages = ("queue",) if name == "max_num_seqs" else ("prefill", "queue")
    return Fault("config", f"{name} {value}", changed, stages, "config_change", None, (("revision", "2"),))


def _answers(chance: random.Random) -> Fault:
    """They get so long that seats or memory do not hold those that came: what then is short, is short because of it."""
    outputs = round(chance.uniform(250, 400))
    return Fault("answers", f"{outputs} tokens", world(outputs=outputs), MORE_STEPS, "answer_mix")


def _drafts(chance: random.Random) -> Fault:
    """Answers no longer repeat what came before."""
    temperature = chance.uniform(0.9, 1.2)
    changed = world(temperature=temperature)
    return Fault("drafts", f"temperature {temperature:.2f}", changed, MORE_STEPS, "acceptance")


def _node_drafts(chance: random.Random) -> Fault:
    """As where one node of several is sent what nothing can be guessed of."""
    node, temperature = chance.choice(NAMES), chance.uniform(0.9, 1.2)
    changed = world(temperatures={node: temperature})
    detail = f"{node} temperature {temperature:.2f}"
    return Fault("node_drafts", detail, changed, MORE_STEPS, "acceptance", ("node", node))


KINDS: dict[str, Callable[[random.Random], Fault]] = {
    "load": _load,
    "one_node": _one_node,
    "prompt_mix": _prompt_mix,
    "cache_miss": _cache_miss,
    "tenant": _tenant,
    "config": _config,
    "drafts": _drafts,
    "answers": _answers,
    "node_drafts": _node_drafts,
}
