"""A Llama decoder written out: rows of tokens in, rows of logits out, keys and values in a paged cache.

Guarantee: in float32 the logits are those of transformers' `LlamaForCausalLM` to rounding, and a row's logits have the
same bits whatever else the step computes (see `quantization.py` and `attention.py` for how).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from agents.engine.model.config import ModelConfig
from agents.engine.model.ops import AttentionPlan, AttentionShape, Ops
from agents.engine.model.torch_ops import TorchOps
from agents.engine.model.weights import WeightFolder
from agents.engine.quantization.linear import Linear, build_linear
from controlplane.contract.knobs import Quantization


@dataclass(frozen=True)
class Layer:
    """One block. Projections that read the same input are stacked."""

    input_norm: Tensor
    qkv: Linear
    out: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear

    def linears(self) -> tuple[Linear, ...]:
        return self.qkv, self.out, self.gate_up, self.down


@dataclass(frozen=True)
class View:
    """What a layer sees of the cache: the table of a cache group, and how far back (None: to the start)."""

    group: int
    window: int | None


@dataclass(frozen=True)
class StepInput:
    """A step's tokens and positions, each (rows,); their cache slots, (rows,) for each cache group; the attention plan
    of each view; logit_rows: whose logits are wanted (None: all)."""

    tokens: Tensor
    positions: Tensor
    slots: tuple[Tensor, ...]
    plans: Mapping[View, AttentionPlan]
    logit_rows: Tensor | None


class Decoder:
    """Weights and the forward pass. `load` reads a folder; the cache is the caller's."""

    def __init__(
        self, config: ModelConfig, embedding: Tensor, layers: list[Layer], norm: Tensor, head: Linear, ops: Ops
    ) -> None:
        self.config, self.ops = config, ops
        self.dtype = embedding.dtype
        self._embedding, self._layers, self._norm, self._head = embedding, layers, norm, head
        angles = torch.outer(
            torch.arange(config.max_position_embeddings, dtype=torch.float32),
            torch.tensor(config.rope.inverse_frequencies(config.head_dim), dtype=torch.float32),
        )
        self._cos = angles.cos().repeat(1, 2).to(self.dtype)
        # The sign of the rotated half is folded into the sine, so that a rotation is a roll and two products.
        self._sin = torch.cat((-angles.sin(), angles.sin()), dim=1).to(self.dtype)

    @classmethod
    def load(
        cls,
        model_dir: Path,
        config: ModelConfig,
        quantization: Quantization,
        dtype: torch.dtype,
        ops: Ops | None = None,
    ) -> "Decoder":
        """Read the folder's weights. Raises `BadRequest` when a tensor is missing."""
        folder = WeightFolder(model_dir)
        embedding = folder.read("model.embed_tokens.weight", dtype)
        layers = [_load_layer(folder, config, index, quantization, dtype) for index in range(config.num_hidden_layers)]
        tied = config.tie_word_embeddings or "lm_head.weight" not in folder
        head = embedding if tied else folder.read("lm_head.weight", dtype)
        norm = folder.read("model.norm.weight", dtype)
        return cls(config, embedding, layers, norm, build_linear(head, None), ops or TorchOps())

    def quantization(self) -> tuple[Quantization, int]:
        """The weight format that the linear layers really have, and their number."""
        formats = [linear.quantization for layer in self._layers for linear in layer.linears()]
        assert len(set(formats)) == 1
        return formats[0], len(formats)

    @property
    def views(self) -> tuple[View, ...]:
        """What the layers see of the cache, each once."""
        return (View(0, None),)

    def attention_shape(self, block_size: int) -> AttentionShape:
        config, weight = self.config, self._embedding
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        return AttentionShape(heads, kv_heads, config.head_dim, block_size, weight.dtype, weight.device)

    def new_cache(self, num_blocks: int, block_size: int) -> list[Tensor]:
        """One page tensor for each layer a block has room for: (blocks, block size, 2, kv heads, head dim), zeros."""
        shape = (num_blocks, block_size, 2, self.config.num_key_value_heads, self.config.head_dim)
        return [torch.zeros(shape, dtype=self.dtype) for _ in self._layers]

    def forward(self, step: StepInput, cache: list[Tensor]) -> Tensor:
        """Writes the rows' keys and values to the cache; returns float32 logits (logit rows, vocabulary)."""
        config, ops = self.config, self.ops
        heads, epsilon, scale = config.num_attention_heads, config.rms_norm_eps, config.head_dim**-0.5
        cos, sin = self._cos.index_select(0, step.positions), self._sin.index_select(0, step.positions)
        stream = self._embedding.index_select(0, step.tokens)
        normed = ops.rms_norm(stream, self._layers[0].input_norm, epsilon)
        following = [*(layer.input_norm for layer in self._layers[1:]), self._norm]
        for layer, pages, next_norm in zip(self._layers, cache, following, strict=True):
            qkv = layer.qkv(normed)
            queries = ops.rotate_and_store(qkv, None, cos, sin, step.slots[0], pages, heads)
            attended = layer.out(ops.attend(queries, pages, step.plans[View(0, None)], scale))
            normed, stream = ops.add_rms_norm(attended, stream, layer.post_norm, epsilon)
            mixed = layer.down(ops.gate(layer.gate_up(normed), "silu"))
            normed, stream = ops.add_rms_norm(mixed, stream, next_norm, epsilon)
        if step.logit_rows is not None:
            normed = normed.index_select(0, step.logit_rows)
        return self._head(normed).float()


def _load_layer(
    folder: WeightFolder, config: ModelConfig, index: int, quantization: Quantization, dtype: torch.dtype
) -> Layer:
    prefix = f"model.layers.{index}."

    def linear(names: list[str], biased: bool) -> Linear:
        weight = folder.read_stacked([f"{prefix}{name}.weight" for name in names], dtype)
        bias = folder.read_stacked([f"{prefix}{name}.bias" for name in names], dtype) if biased else None
        return build_linear(weight, bias, quantization)

    return Layer(
        input_norm=folder.read(f"{prefix}input_layernorm.weight", dtype),
        qkv=linear(["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], config.attention_bias),
        out=linear(["self_attn.o_proj"], config.attention_bias),
        post_norm=folder.read(f"{prefix}post_attention_layernorm.weight", dtype),
        gate_up=linear(["mlp.gate_proj", "mlp.up_proj"], config.mlp_bias),
        down=linear(["mlp.down_proj"], config.mlp_bias),
    )
