"""A node's memory as its page shows it: what is held, what the largest step takes, and what there is. Pure."""

from typing import NamedTuple

from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.byte_text import byte_text
from controlplane.contract.knobs import QUANTIZATION
from controlplane.contract.planning.memory_estimate import estimate, full_length_requests
from controlplane.contract.reports.node_memory import NodeMemory

NOT_TOLD = "not told"


class MemoryRow(NamedTuple):
    """`told`: in bytes with a unit, or that it is not told; `more`: what goes with it."""

    name: str
    told: str
    more: str = ""


def memory_rows(runs: EffectiveConfig) -> list[MemoryRow]:
    """Each term of what it runs, then the sum and the limit; empty where nothing is told."""
    memory = runs.memory
    if memory is None:
        return []
    found = estimate(memory, runs.knobs, {})
    more = {"weights": _formats(memory, str(runs.knobs.get(QUANTIZATION, ""))), "KV cache": _cache(memory)}
    more |= dict.fromkeys(("activations", "logits"), "of the largest step, at least")
    rows = [MemoryRow(name, _text(value), more.get(name, "")) for name, value in found.terms.items()]
    rows.append(MemoryRow("needed", byte_text(found.needed), "at least; what is not told is not in it"))
    return [*rows, MemoryRow("there is", _text(found.limit))]


def _text(value: int | None) -> str:
    return NOT_TOLD if value is None else byte_text(value)


def _formats(memory: NodeMemory, runs: str) -> str:
    others = [f"{name} {byte_text(value)}" for name, value in memory.weights_bytes_by_format.items() if name != runs]
    return f"in {runs}; at least in others: {', '.join(others)}" if others else f"in {runs}"


def _cache(memory: NodeMemory) -> str:
    tokens, held = memory.kv_cache_size_tokens, memory.kv_cache_memory_bytes
    parts = [] if tokens is None else [f"{tokens} tokens"]
    if tokens and held:
        parts.append(f"{byte_text(held // tokens)} a token")
    if (whole := full_length_requests(memory)) is not None:
        parts.append(f"{whole} requests of {memory.max_model_len} tokens at once")
    return ", ".join(parts)
