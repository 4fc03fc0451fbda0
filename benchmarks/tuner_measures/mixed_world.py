"""A world that many pools have: people chat, and beside them long documents are read. On engines as they start by
themselves.

vLLM 0.32 on a CPU begins with 2,048 tokens and 128 sequences a step, and computes a document whole, in one step or two:
everybody who is being answered waits meanwhile. Nothing is drafted; room for n-gram drafts is there, as they can only
then be moved while it serves. The other capacities are these defaults, too. The embedded engine computes 512 tokens a
step.
"""

from dataclasses import replace
from pathlib import Path

from agents.demo.demo_fleet import Fleet
from agents.demo.engines import TAILWRIGHT
from agents.demo.plan import Plan
from benchmarks.tuner_measures.live_fleet import all_nodes
from controlplane.contract.knobs import EngineConfig

DEFAULTS: dict[str, object] = {
    "max_num_batched_tokens": 2048,
    "prefill_chunk_size": 0,
    "max_num_seqs": 128,
    "num_speculative_tokens": 0,
}
"""vLLM 0.32's own on a CPU (vllm/engine/arg_utils.py); of an API server."""
CHAT_INPUT = 600
DOCUMENT_INPUT, DOCUMENT_OUTPUT = 1900, 60
"""Longest prompts and answers, tokens."""
OWN_MODEL_KV_MIB, FIRST_START_S = 512, 900.0
"""A real model's cache is larger than the bundled one's."""


def mixed_plan(usual: Plan, *, chat: float, answer: int) -> Plan:
    """`usual` with one serving node, the engine's defaults, and `chat` turns of conversations a second, answered with
    so many tokens at most."""
    return replace(
        usual,
        vllm=None if usual.vllm is None else replace(usual.vllm, capacity_seqs=128),
        engine_ports=usual.engine_ports[:1],
        good=EngineConfig().knobs() if usual.vllm is None else DEFAULTS,
        traffic="chat",
        rate=chat,
        max_input_tokens=CHAT_INPUT,
        max_output_tokens=answer,
    )


def with_model(usual: Plan, model: Path) -> Plan:
    """`usual`, serving the model in this folder; a first start on a machine times its kernels."""
    return replace(
        usual,
        model_dir=model,
        draft_dir=model / "draft",
        kv_cache_mib=OWN_MODEL_KV_MIB,
        start_limit_s=FIRST_START_S,
    )


def start_with_documents(fleet: Fleet, documents: float, longest: int = DOCUMENT_INPUT) -> int:
    """The plan's nodes, and `documents` a second (0: none) of at most `longest` tokens to the serving ones once they
    answer; how many nodes."""
    nodes, plan = all_nodes(fleet), fleet.plan
    if not documents:
        return nodes
    targets = [word for port in plan.engine_ports for word in ("--target", f"http://127.0.0.1:{port}")]
    load = ["--rate", str(documents), "--seed", str(plan.seed + 1000), "--wait", str(plan.start_limit_s)]
    limits = ["--max-input", str(longest), "--max-output", str(DOCUMENT_OUTPUT)]
    shape = ["--shape", "rag", "--arrival-cv", str(plan.arrival_cv)]
    fleet.processes.start("documents", [*TAILWRIGHT, "traffic", *targets, *load, *shape, *limits])
    return nodes
