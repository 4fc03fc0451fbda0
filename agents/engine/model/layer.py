"""One decoder layer's weights, as the folder stores them and as the decoder wants them.

Guarantee: projections that read the same input are stacked, so that one product serves them all; norm weights are
float32 with their family's offset added, which half precision could not hold.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from agents.engine.model.config import ModelConfig
from agents.engine.model.weights import WeightFolder
from agents.engine.quantization.linear import Linear, LinearBuilder


@dataclass(frozen=True)
class Layer:
    """head_norms: those of queries and keys, with epsilon. attention_out_norm and feed_forward_out_norm: of models with
    sandwich norms."""

    input_norm: Tensor
    qkv: Linear
    head_norms: tuple[Tensor, Tensor, float] | None
    out: Linear
    attention_out_norm: Tensor | None
    feed_forward_norm: Tensor
    gate_up: Linear
    down: Linear
    feed_forward_out_norm: Tensor | None

    def linears(self) -> tuple[Linear, ...]:
        return self.qkv, self.out, self.gate_up, self.down

    def norms(self) -> list[Tensor]:
        """Those that the family has."""
        own = (self.input_norm, self.attention_out_norm, self.feed_forward_norm, self.feed_forward_out_norm)
        heads = () if self.head_norms is None else self.head_norms[:2]
        return [norm for norm in (*own, *heads) if norm is not None]


def read_norm(folder: WeightFolder, config: ModelConfig, name: str, width: int) -> Tensor:
    """A norm's weight, (width,) float32."""
    return folder.read(name, torch.float32, (width,)) + config.norm_offset


def load_layer(
    folder: WeightFolder, config: ModelConfig, index: int, linears: LinearBuilder, dtype: torch.dtype
) -> Layer:
    """Raises `BadRequest` when a tensor is missing or of another shape."""
    prefix = f"model.layers.{index}."
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    query_width, key_width = config.num_attention_heads * dim, config.num_key_value_heads * dim

    def linear(outputs: dict[str, int], inputs: int, biased: bool) -> Linear:
        weight = folder.read_stacked(
            {f"{prefix}{name}.weight": (width, inputs) for name, width in outputs.items()}, dtype
        )
        biases = {f"{prefix}{name}.bias": (width,) for name, width in outputs.items()}
        name = f"{index}.{next(iter(outputs))}"
        return linears.body(name, weight, folder.read_stacked(biases, dtype) if biased else None)

    def norm(name: str, width: int = hidden) -> Tensor:
        return read_norm(folder, config, f"{prefix}{name}.weight", width)

    qkv = {"self_attn.q_proj": query_width, "self_attn.k_proj": key_width, "self_attn.v_proj": key_width}
    sandwich = config.sandwich_norms
    return Layer(
        input_norm=norm("input_layernorm"),
        qkv=linear(qkv, hidden, config.qkv_bias),
        head_norms=(norm("self_attn.q_norm", dim), norm("self_attn.k_norm", dim), config.rms_norm_eps)
        if config.qk_norm
        else None,
        out=linear({"self_attn.o_proj": hidden}, query_width, config.out_bias),
        # Where there is no sandwich, `post_attention_layernorm` names the norm before the feed-forward.
        attention_out_norm=norm("post_attention_layernorm") if sandwich else None,
        feed_forward_norm=norm("pre_feedforward_layernorm" if sandwich else "post_attention_layernorm"),
        gate_up=linear({"mlp.gate_proj": inner, "mlp.up_proj": inner}, hidden, config.mlp_bias),
        down=linear({"mlp.down_proj": hidden}, inner, config.mlp_bias),
        feed_forward_out_norm=norm("post_feedforward_layernorm") if sandwich else None,
    )
