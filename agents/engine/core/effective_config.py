"""The effective configuration, read back from the parts that run it, never from what was asked for."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agents.engine.core.memory_report import read_memory
from agents.engine.core.step import StepEngine
from agents.engine.drafting.speculator import method_of
from agents.engine.quantization.linear import describe
from agents.engine.quantization.plain import PlainLinear
from agents.engine.scheduling.scheduler import Scheduler
from controlplane.contract import knobs
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.reports.model_shape import ModelShape
from controlplane.contract.reports.node_memory import NodeMemory


@dataclass(frozen=True)
class ReadBack:
    """What `GET /config` answers. sources: knob name to how its value was read."""

    config: EngineConfig
    revision: int
    sources: dict[str, str]
    capabilities: dict[str, Any]
    draining: bool
    scheduling: dict[str, Any]
    """What the scheduler was started with, and limits that it moves by itself: configured and in force."""
    memory: NodeMemory
    shape: ModelShape

    def body(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "knobs": self.config.knobs(),
            "sources": self.sources,
            "capabilities": self.capabilities,
            "draining": self.draining,
            "scheduling": self.scheduling,
            "memory": self.memory.model_dump(mode="json"),
            "shape": self.shape.model_dump(mode="json"),
        }


def read_back(engine: StepEngine) -> ReadBack:
    """Call it in the stepping thread, or accept a value that is one step old."""
    decoder = engine.runner.decoder
    quantization, layers = decoder.quantization()
    formats = describe(decoder.device, decoder.dtype, engine.options.kernels)
    limits = engine.scheduler.config
    method = method_of(engine.speculator.drafter)
    return ReadBack(
        config=limits.model_copy(update={knobs.QUANTIZATION: quantization}),
        revision=engine.revision,
        sources={
            knobs.MAX_NUM_BATCHED_TOKENS: "scheduler: budget of the next step",
            knobs.PREFILL_CHUNK_SIZE: "scheduler: limit of a prompt's piece in the next step",
            knobs.MAX_NUM_SEQS: "scheduler: limit of running requests in the next step",
            knobs.NUM_SPECULATIVE_TOKENS: f"scheduler: draft length of the next step, drafted by {method}",
            knobs.QUANTIZATION: f"decoder: format of its {layers} linear layers, {formats[quantization]}; "
            f"the head is {decoder.head_quantization.value}",
        },
        capabilities={
            knobs.QUANTIZATION: [name.value for name in engine.options.quantizations],
            "quantization_formats": {name.value: formats[name] for name in engine.options.quantizations},
            **engine.speculator.capabilities(),
            "dtype": engine.options.dtype,
            "device": str(engine.device),
            "kernels": engine.kernels.report,
            "linear_kernels": read_linear_kernels(decoder.plain_layers()),
            "max_model_len": engine.max_model_len,
            "num_kv_blocks": engine.pool.num_blocks,
            "block_size": engine.pool.block_size,
        },
        draining=not engine.scheduler.admitting,
        scheduling=read_scheduling(engine.scheduler),
        memory=read_memory(engine),
        shape=engine.model_config.shape(),
    )


def read_linear_kernels(layers: Sequence[PlainLinear]) -> list[dict[str, Any]]:
    """What computes the unquantized layers, by size (outputs and inputs), and what that choice went by: microseconds by
    candidate and number of rows, empty where nothing was measured."""
    found: dict[tuple[tuple[int, int], str], dict[str, Any]] = {}
    for layer in layers:
        own = found.setdefault(
            (layer.size, layer.kernel),
            {
                "outputs": layer.size[0],
                "inputs": layer.size[1],
                "layers": 0,
                "kernel": layer.kernel,
                "microseconds": layer.microseconds,
            },
        )
        own["layers"] += 1
    return list(found.values())


def read_scheduling(scheduler: Scheduler) -> dict[str, Any]:
    """Any thread may ask; the values are those of the step in progress or the next."""
    budget = scheduler.config.max_num_batched_tokens
    return {
        **asdict(scheduler.policy),
        "prompt_tokens_per_step": {
            "configured": budget,
            "effective": scheduler.prefill_limit.tokens(budget),
            "adjusted_by": None if scheduler.policy.itl_target_s is None else "itl_target_s",
        },
    }
