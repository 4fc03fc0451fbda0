"""The effective configuration, read back from the parts that run it, never from what was asked for."""

from dataclasses import dataclass
from typing import Any

from agents.engine.quantization.linear import SUPPORTED
from agents.engine.speculation.drafting import SpeculativeMethod
from agents.engine.step import StepEngine
from controlplane.contract import knobs
from controlplane.contract.knobs import EngineConfig


@dataclass(frozen=True)
class EffectiveConfig:
    """What `GET /config` answers. sources: knob name to how its value was read."""

    config: EngineConfig
    revision: int
    sources: dict[str, str]
    capabilities: dict[str, Any]
    draining: bool

    def body(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "knobs": self.config.knobs(),
            "sources": self.sources,
            "capabilities": self.capabilities,
            "draining": self.draining,
        }


def read_back(engine: StepEngine) -> EffectiveConfig:
    """Call it in the stepping thread, or accept a value that is one step old."""
    quantization, layers = engine.runner.decoder.quantization()
    limits = engine.scheduler.config
    method = engine.options.speculative_method
    return EffectiveConfig(
        config=limits.model_copy(update={knobs.QUANTIZATION: quantization}),
        revision=engine.revision,
        sources={
            knobs.MAX_NUM_BATCHED_TOKENS: "scheduler: budget of the next step",
            knobs.PREFILL_CHUNK_SIZE: "scheduler: limit of a prompt's piece in the next step",
            knobs.MAX_NUM_SEQS: "scheduler: limit of running requests in the next step",
            knobs.NUM_SPECULATIVE_TOKENS: f"scheduler: draft length of the next step, drafted by {method}",
            knobs.QUANTIZATION: f"decoder: format of its {layers} linear layers",
        },
        capabilities={
            knobs.QUANTIZATION: [format_.value for format_ in SUPPORTED],
            "speculative_method": str(SpeculativeMethod(method)),
            "dtype": engine.options.dtype,
            "max_model_len": engine.max_model_len,
            "num_kv_blocks": engine.pool.num_blocks,
            "block_size": engine.pool.block_size,
        },
        draining=not engine.scheduler.admitting,
    )
