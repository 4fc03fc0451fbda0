"""Workers of vLLM's shape around real torch modules."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

HIDDEN, INNER, VOCAB = 8, 32, 100


class Product(nn.Module):
    """A linear layer as vLLM's; `packed`: its weights are in a kernel's own form, as on a CPU."""

    def __init__(self, inputs: int, outputs: int, *, packed: bool = False) -> None:
        super().__init__()
        self.input_size_per_partition, self.output_size_per_partition = inputs, outputs
        size = (0,) if packed else (outputs, inputs)
        self.weight = nn.Parameter(torch.empty(size, dtype=torch.bfloat16), requires_grad=False)


class Table(nn.Module):
    """The embedding, which is the head, too."""

    def __init__(self) -> None:
        super().__init__()
        self.num_embeddings = self.output_size_per_partition = VOCAB
        self.input_size_per_partition = HIDDEN
        self.weight = nn.Parameter(torch.empty(VOCAB, HIDDEN, dtype=torch.bfloat16), requires_grad=False)


class Model(nn.Module):
    """A layer, an embedding that the head shares, and a table of rotations."""

    def __init__(self, *, packed: bool = False) -> None:
        super().__init__()
        self.up, self.down = Product(HIDDEN, 2 * INNER, packed=packed), Product(INNER, HIDDEN, packed=packed)
        self.table, self.head = Table(), Table()
        self.head.weight = self.table.weight
        self.register_buffer("rotations", torch.empty(10, dtype=torch.float32))


WEIGHTS = 2 * (HIDDEN * 2 * INNER + INNER * HIDDEN + VOCAB * HIDDEN) + 10 * 4
"""Bytes of a `Model`."""


class Seeing(nn.Module):
    """A model with eyes, whose products are not of a step's tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.eyes, self.language = Product(HIDDEN, 1000), Model()

    def get_language_model(self) -> nn.Module:
        return self.language


def vllm_config(device: str = "cpu", **replaced: Any) -> SimpleNamespace:
    """A VllmConfig: bfloat16, half of the memory, requests of 50 tokens; `replaced`: whole parts of it."""
    known: dict[str, Any] = dict(
        cache_config=SimpleNamespace(
            kv_cache_memory_bytes=None, num_gpu_blocks_override=None, gpu_memory_utilization=0.5,
            kv_cache_size_tokens=400,
        ),
        model_config=SimpleNamespace(
            dtype=torch.bfloat16, max_model_len=50, original_max_model_len=50, runner_type="generate",
            get_vocab_size=lambda: VOCAB,
        ),
        parallel_config=SimpleNamespace(nnodes=1),
        device_config=SimpleNamespace(device_type=device),
        speculative_config=None,
    )  # fmt: skip
    return SimpleNamespace(**{**known, **replaced})


def cpu_worker(config: Any = None, model: nn.Module | None = None, **more: Any) -> SimpleNamespace:
    """One that may use 10,000 bytes."""
    return SimpleNamespace(
        vllm_config=config or vllm_config(),
        device=torch.device("cpu"),
        requested_cpu_memory=10_000,
        model_runner=SimpleNamespace(get_model=lambda: model or Model(packed=True), **more),
    )


def gpu_worker(config: Any = None, model: nn.Module | None = None, **more: Any) -> SimpleNamespace:
    """One that may use 10,000 of 16,000 bytes, and kept 6,000 of them after its profile run, 5,500 of those weights."""
    weights = model or Model()
    return SimpleNamespace(
        vllm_config=config or vllm_config("cuda"),
        device=SimpleNamespace(type="cuda"),
        requested_memory=10_000,
        init_snapshot=SimpleNamespace(total_memory=16_000),
        total_consumed=6_000,
        model_runner=SimpleNamespace(get_model=lambda: weights, model_memory_usage=5_500, **more),
    )
