"""The sizes of a decoder, as its config.json (transformers) has them: weights, KV cache, products of attention.

A layer has four projections of attention (`heads` x `head_dim` wide; keys and values `kv_heads` x `head_dim`) and three
of a gated MLP, or of each of its experts, of which a token takes a few; norms, biases and routers are left out, a
thousandth. Embedding and head count once each.

With latents (multi-head latent attention, DeepSeek-V2, arXiv 2405.04434, 2.1) keys and values of all heads are made of
one short vector, which is what is cached, beside a part that tells places and that all heads share.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from controlplane.contract.errors import BadRequest

_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
_OF_A_TOKEN = ("num_experts_per_tok", "experts_per_token")
_SIZES = {
    "num_hidden_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "intermediate_size": "intermediate",
    "vocab_size": "vocabulary",
}
_BEYOND = {
    "index_topk": "its attention chooses the tokens that it reads",
    "interleave_moe_layer_step": "its layers with experts have a shared one beside them that is told nowhere",
}
_STEPS = ("decoder_sparse_step", "moe_layer_freq")
"""1 where each layer has experts."""
_SLIDING, _LAYERS = "sliding_attention", {"sliding_attention", "full_attention"}
LARGEST = 2**31
Size = Annotated[int, Field(ge=1, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]


class ModelShape(BaseModel):
    """Numbers, no bytes: how many bytes a weight or a cached value has is the deployment's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layers: Size = Field(description="of attention and MLP")
    hidden: Size = Field(description="width of what goes from layer to layer")
    heads: Size = Field(description="of queries, in a layer")
    kv_heads: Size = Field(description="of keys and values, in a layer")
    head_dim: Size = Field(description="width of a head; with latents of the part of its keys that is made of them")
    intermediate: Size = Field(description="width of the MLP of a layer without experts")
    vocabulary: Size = Field(description="tokens that there are")
    experts: Count = Field(default=0, description="in each layer that has some; 0: a dense model")
    experts_a_token: Count = Field(default=0, description="of these a token takes so many")
    expert_intermediate: Count = Field(default=0, description="width of an expert's MLP")
    shared_intermediate: Count = Field(default=0, description="width of the MLP that all tokens take beside experts")
    dense_layers: Count = Field(default=0, description="layers without experts, of a model that has experts")
    windowed_layers: Count = Field(default=0, description="layers that see only the last `window` tokens")
    window: Count = Field(default=0, description="tokens that those see")
    kv_lora_rank: Count = Field(default=0, description="width of the latent that is cached; 0: keys and values are")
    q_lora_rank: Count = Field(default=0, description="width of the latent of queries; 0: they have none")
    qk_rope_head_dim: Count = Field(default=0, description="beside latents: width of the part that tells places")
    v_head_dim: Count = Field(default=0, description="beside latents: width of a head's values")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.experts and not (0 < self.experts_a_token <= self.experts and self.expert_intermediate):
            raise ValueError("experts: a token takes between one and all of them, and each has a width")
        if self.dense_layers > self.layers or self.windowed_layers > self.layers:
            raise ValueError("layers: fewer than those without experts, or with a window")
        if self.windowed_layers and not self.window:
            raise ValueError("window: layers have one, and its tokens are not told")
        beside = (self.q_lora_rank, self.qk_rope_head_dim, self.v_head_dim)
        if not self.v_head_dim if self.kv_lora_rank else any(beside):
            raise ValueError("kv_lora_rank: with it v_head_dim is told, and without it nothing that is beside latents")
        return self

    @property
    def expert_layers(self) -> int:
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def dense_weights(self) -> int:
        """Of all layers, what each token takes whatever its experts."""
        dense = (self.layers - self.expert_layers) * self.intermediate + self.expert_layers * self.shared_intermediate
        return self.layers * self._attention_weights + 3 * self.hidden * dense

    @property
    def _attention_weights(self) -> int:
        """Of a layer."""
        if not self.kv_lora_rank:
            return 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        queries = self.heads * (self.head_dim + self.qk_rope_head_dim)
        asked = self.q_lora_rank * (self.hidden + queries) if self.q_lora_rank else self.hidden * queries
        kept = self.hidden * (self.kv_lora_rank + self.qk_rope_head_dim)
        made = self.kv_lora_rank * self.heads * (self.head_dim + self.v_head_dim)
        return asked + kept + made + self.heads * self.v_head_dim * self.hidden

    @property
    def pair_products(self) -> int:
        """In a layer of a prompt, of a token that looks at another: its query with the key, its weight with the
        value."""
        return self.heads * (self.head_dim + self.qk_rope_head_dim + (self.v_head_dim or self.head_dim))

    @property
    def latent_products(self) -> int:
        """The same of a decode, which looks at latents as they are; 0 without them."""
        return self.heads * (2 * self.kv_lora_rank + self.qk_rope_head_dim) if self.kv_lora_rank else 0

    @property
    def expert_weights(self) -> int:
        """Of one expert in each layer that has some."""
        return self.expert_layers * 3 * self.hidden * self.expert_intermediate

    @property
    def layer_weights(self) -> int:
        """Of all layers together: what a format packs."""
        return self.dense_weights + self.experts * self.expert_weights

    @property
    def token_weights(self) -> int:
        """Of all layers, what one token is multiplied with."""
        return self.dense_weights + self.experts_a_token * self.expert_weights

    def read_weights(self, tokens: float) -> float:
        """Of all layers, what a step of so many tokens reads: of experts those that any token takes, if all are as
        likely, E (1 - (1 - k / E) ^ tokens)."""
        if not self.experts:
            return self.dense_weights
        missed = math.pow(1.0 - self.experts_a_token / self.experts, tokens)
        return self.dense_weights + self.experts * (1.0 - missed) * self.expert_weights

    @property
    def embedding_weights(self) -> int:
        """Of the embedding; the head has as many."""
        return self.vocabulary * self.hidden

    def kv_values_per_token(self, ranks: int) -> int:
        """Keys and values cached for a token, on all ranks: a KV head is not split, beyond them it is copied; latents
        are of all heads, and each rank has them."""
        if self.kv_lora_rank:
            return self.layers * (self.kv_lora_rank + self.qk_rope_head_dim) * ranks
        return 2 * self.layers * max(self.kv_heads, ranks) * self.head_dim

    def kv_values(self, tokens: float, ranks: int) -> float:
        """Cached for a request of so many tokens, on all ranks: layers with a window keep no more than that."""
        kept = (self.layers - self.windowed_layers) * tokens + self.windowed_layers * min(tokens, self.window)
        return kept * self.kv_values_per_token(ranks) / self.layers


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """By the names of transformers. Raises BadRequest, which names the field, for a size that is missing or no whole
    number above 0, and for models whose steps are made of something else (linear or sparse attention)."""
    text = config.get("text_config", config)
    if not isinstance(text, Mapping):
        raise BadRequest("text_config: wants an object with the sizes of the model's text", field="text_config")
    for name, why in _BEYOND.items():
        if text.get(name):
            raise BadRequest(f"{name}: {why}; its steps are not forecast", field=name)
    sizes = {ours: _whole(text, theirs) for theirs, ours in _SIZES.items()}
    sizes["kv_heads"] = _whole(text, "num_key_value_heads") if text.get("num_key_value_heads") else sizes["heads"]
    if text.get("kv_lora_rank"):
        sizes |= _latents(text)
    else:
        sizes["head_dim"] = _whole(text, "head_dim") if text.get("head_dim") else sizes["hidden"] // sizes["heads"]
    return ModelShape(**sizes, **_windows(text), **_experts(text))


def _latents(text: Mapping[str, Any]) -> dict[str, int]:
    sizes = {name: _whole(text, name) for name in ("kv_lora_rank", "qk_rope_head_dim", "v_head_dim")}
    if text.get("q_lora_rank"):
        sizes["q_lora_rank"] = _whole(text, "q_lora_rank")
    return sizes | {"head_dim": _whole(text, "qk_nope_head_dim")}


def _windows(text: Mapping[str, Any]) -> dict[str, int]:
    kinds = text.get("layer_types") or []
    if not isinstance(kinds, list | tuple):
        raise BadRequest("layer_types: wants a list", field="layer_types")
    if others := sorted(set(kinds) - _LAYERS):
        raise BadRequest(f"layer_types: {others[0]} is not forecast, only attention is", field="layer_types")
    windowed = kinds.count(_SLIDING)
    return {"windowed_layers": windowed, "window": _whole(text, "sliding_window")} if windowed else {}


def _experts(text: Mapping[str, Any]) -> dict[str, int]:
    field = next((name for name in _EXPERTS if text.get(name)), None)
    if field is None:
        return {}
    if some := next((name for name in _STEPS if text.get(name, 1) != 1), None):
        raise BadRequest(f"{some}: layers with and without experts in turn are not forecast", field=some)
    each = next((name for name in _OF_A_TOKEN if text.get(name)), _OF_A_TOKEN[0])
    own = "moe_intermediate_size" if text.get("moe_intermediate_size") else "intermediate_size"
    width = _whole(text, own)
    shared = text.get("shared_expert_intermediate_size") or (text.get("n_shared_experts") or 0) * width
    dense = text.get("first_k_dense_replace") or len(text.get("mlp_only_layers") or [])
    return {
        "experts": _whole(text, field),
        "experts_a_token": _whole(text, each),
        "expert_intermediate": width,
        "shared_intermediate": shared,
        "dense_layers": dense,
    }


def _whole(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadRequest(f"{name}: wants a whole number above 0, got {value!r}", field=name)
    if value > LARGEST:
        raise BadRequest(f"{name}: wants {LARGEST} at most, got {value}", field=name)
    return value
