"""The sizes of a dense decoder, as its config.json (transformers) has them: weights, KV cache, products of attention.

A layer has four projections of attention (`heads` x `head_dim` wide; keys and values `kv_heads` x `head_dim`) and three
of a gated MLP; norms and biases are left out, a thousandth. Embedding and head count once each.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.contract.errors import BadRequest

_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
_SIZES = {
    "num_hidden_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "intermediate_size": "intermediate",
    "vocab_size": "vocabulary",
}


@dataclass(frozen=True)
class ModelShape:
    """Numbers, no bytes: how many bytes a weight or a cached value has is the deployment's."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int

    @property
    def layer_weights(self) -> int:
        """Of all layers together: what a format packs."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def embedding_weights(self) -> int:
        """Of the embedding; the head has as many."""
        return self.vocabulary * self.hidden

    def kv_values_per_token(self, ranks: int) -> int:
        """Keys and values cached for a token, on all ranks: a KV head is not split, beyond them it is copied."""
        return 2 * self.layers * max(self.kv_heads, ranks) * self.head_dim


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """By the names of transformers. Raises BadRequest, which names the field, for a size that is missing or no whole
    number above 0, and for models whose steps are made of something else (experts, latent attention)."""
    text = config.get("text_config", config)
    if any(text.get(name) for name in _EXPERTS):
        raise BadRequest(
            "this model has experts: what its steps read is not forecast, only dense models are",
            field=next(name for name in _EXPERTS if text.get(name)),
        )
    if text.get("kv_lora_rank"):
        raise BadRequest("this model caches latents in place of keys and values: not forecast", field="kv_lora_rank")
    sizes = {ours: _whole(text, theirs) for theirs, ours in _SIZES.items()}
    kv_heads = _whole(text, "num_key_value_heads") if text.get("num_key_value_heads") else sizes["heads"]
    head_dim = _whole(text, "head_dim") if text.get("head_dim") else sizes["hidden"] // sizes["heads"]
    return ModelShape(**sizes, kv_heads=kv_heads, head_dim=head_dim)


def read_shape(path: Path) -> ModelShape:
    """Of a config.json, or of the folder that has one. Raises BadRequest where it cannot be read."""
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadRequest(f"{file}: not a readable config.json ({error})", field="model") from error
    if not isinstance(config, dict):
        raise BadRequest(f"{file}: wants a JSON object as transformers writes it", field="model")
    return shape_of(config)


def _whole(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadRequest(f"{name}: wants a whole number above 0, got {value!r}", field=name)
    return value
