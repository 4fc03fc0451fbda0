"""What an engine holds in memory and how much there is, for the effective configuration; and its own refusal by it.

Guarantee: what the engine holds is counted by the tensors that hold it; of formats that it does not run, and of a step,
it tells lower bounds.
"""

import os
from pathlib import Path

import psutil
import torch

from agents.engine.core.step import StepEngine
from agents.engine.drafting.draft_model import ModelDrafter
from agents.engine.model.held_bytes import activation_bytes, format_bytes, held_bytes, logits_bytes
from agents.host.control_group import groups_of, memory_limit
from controlplane.contract.errors import Conflict
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.memory_estimate import refusal
from controlplane.contract.reports.node_memory import NodeMemory


def read_memory(engine: StepEngine) -> NodeMemory:
    """Call it in the stepping thread: a swap replaces what is counted."""
    decoder, config = engine.runner.decoder, engine.model_config
    drafter = engine.speculator.drafter
    draft = drafter.runner if isinstance(drafter, ModelDrafter) else None
    runs, _ = decoder.quantization()
    weights = held_bytes(decoder)
    by_format = {name.value: format_bytes(decoder, name) for name in engine.options.quantizations}
    return NodeMemory(
        limit_bytes=device_bytes(engine.device),
        weights_bytes=weights,
        weights_bytes_by_format={**by_format, runs.value: weights},
        draft_weights_bytes=0 if draft is None else held_bytes(draft.decoder),
        kv_cache_memory_bytes=engine.runner.cache_bytes + (0 if draft is None else draft.cache_bytes),
        # A token takes a place in the table of each cache group.
        kv_cache_size_tokens=max(1, engine.pool.num_blocks // len(config.cache_groups()) * engine.pool.block_size),
        max_model_len=engine.max_model_len,
        activation_bytes_per_token=activation_bytes(config, decoder.dtype),
        logits_bytes_per_token=logits_bytes(config),
        swap_holds_both=True,  # `StepEngine.swap_weights` loads the new ones before it lets go of the old.
    )


def device_bytes(device: torch.device) -> int:
    """All of the device's memory; of the CPU's what this process's control group allows."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    allowed = memory_limit(groups_of(os.getpid(), Path("/proc"), Path("/sys/fs/cgroup")))
    total = int(psutil.virtual_memory().total)
    return total if allowed is None else min(total, allowed)


def refuse_unfit(memory: NodeMemory, runs: EngineConfig, wanted: EngineConfig) -> None:
    """Raises `Conflict` that names the knob for a configuration that cannot fit."""
    against = refusal(memory, runs.knobs(), wanted.knobs())
    if against is not None:
        field = f"knobs.{against.knob}"
        raise Conflict(f"{field}: {against.problem}; {against.mend}", field=field)
