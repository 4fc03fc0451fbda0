"""The model that is trained: a Llama decoder whose parameters carry the names that Hugging Face's layout gives them.

Guarantees: `state_dict()` loads into `transformers.LlamaForCausalLM` as it is, and both compute the same logits (a
test compares them). Shapes: tokens are (batch, length) int64, hidden states (batch, length, hidden).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROPE_THETA = 10000.0
NORM_EPSILON = 1e-5


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder, named as in config.json."""

    hidden_size: int
    num_hidden_layers: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int = 4096
    max_position_embeddings: int = 2048

    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            **asdict(self),
            "hidden_act": "silu",
            "rms_norm_eps": NORM_EPSILON,
            "rope_theta": ROPE_THETA,
            "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_THETA},
            "attention_bias": False,
            "mlp_bias": False,
            "attention_dropout": 0.0,
            "initializer_range": 0.02,
            "tie_word_embeddings": True,
            "use_cache": True,
            "bos_token_id": 0,
            "eos_token_id": 0,
            "pad_token_id": 0,
            "dtype": "float32",
        }


TARGET_SHAPE = Shape(256, 6, 640, 4, 2, 64)
DRAFT_SHAPE = Shape(64, 2, 512, 2, 1, 32)


class Norm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, NORM_EPSILON)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.hidden_size, shape.num_attention_heads * shape.head_dim, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, shape.num_key_value_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, shape.num_key_value_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(shape.num_attention_heads * shape.head_dim, shape.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        queries, keys, values = (
            projected.view(batch, length, -1, self.shape.head_dim).transpose(1, 2)
            for projected in (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        )
        queries, keys = _rotate(queries, cos, sin), _rotate(keys, cos, sin)
        group = self.shape.num_attention_heads // self.shape.num_key_value_heads
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
        with torch.autocast("cpu", enabled=False):
            mixed = _causal_attention(queries, keys, values)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
        return out


class Mlp(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden_size)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.hidden_size)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Body(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = Norm(shape.hidden_size)


class Decoder(nn.Module):
    """The causal language model with tied embeddings; weights are drawn from torch's global generator."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Body(shape)
        frequencies = ROPE_THETA ** -(torch.arange(0, shape.head_dim, 2) / shape.head_dim)
        angles = torch.outer(torch.arange(shape.max_position_embeddings), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                # Projections into the residual stream start smaller, so that depth does not grow its variance.
                residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * shape.num_hidden_layers) ** (0.5 if residual else 0.0))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of shape (batch, length, vocabulary)."""
        length = tokens.shape[1]
        x = self.model.embed_tokens(tokens)
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
        cos, sin = self.cos[:length].to(dtype), self.sin[:length].to(dtype)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, halves convention (Su et al. 2021, as in Hugging Face's Llama)."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def _causal_attention(queries: Tensor, keys: Tensor, values: Tensor, block_tokens: int = 256) -> Tensor:
    """Causal attention in blocks of queries: on a CPU's bf16 units forward and backward take a third of SDPA's time."""
    batch, heads, length, size = queries.shape
    queries = (queries * size**-0.5).reshape(batch * heads, length, size)
    keys, values = keys.reshape(batch * heads, length, size), values.reshape(batch * heads, length, size)
    hidden = torch.full((block_tokens, block_tokens), float("-inf"), dtype=queries.dtype).triu(1)
    mixed = []
    for start in range(0, length, block_tokens):
        end = min(start + block_tokens, length)
        scores = torch.bmm(queries[:, start:end], keys[:, :end].transpose(1, 2))
        scores[:, :, start:end] += hidden[: end - start, : end - start]
        mixed.append(torch.bmm(torch.softmax(scores, -1), values[:, :end]))
    return torch.cat(mixed, 1).view(batch, heads, length, size)
