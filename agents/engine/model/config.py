"""The shape of a model, read from the config.json of a Hugging Face folder.

Guarantee: a `ModelConfig` describes a model that `decoder.py` computes exactly; anything else in the folder's
configuration that would change the result is refused with an error that names it.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.engine.model.families import find_family, layer_ropes, layer_windows
from agents.engine.model.rope import Rope
from agents.engine.model.unsupported import unsupported
from agents.engine.scheduling.cache_groups import CacheGroup
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.model_shape import ModelShape

CONFIG_FILE = "config.json"

_REQUIRED = (
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "vocab_size",
    "max_position_embeddings",
)
_ACTIVATIONS = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
_MUST_BE_OFF = ("attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention")
_MOST_GROUPS = 8


@dataclass(frozen=True)
class ModelConfig:
    """Sizes in elements, named as in config.json; the flags say how the families differ."""

    architecture: str
    hidden_size: int
    num_hidden_layers: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    windows: tuple[int | None, ...]
    """For each layer, how many tokens a token sees, itself included; None: all before it."""
    rope: Rope
    local_rope: Rope
    """Of the layers with a window."""
    tie_word_embeddings: bool
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    qk_norm: bool
    """Queries and keys are normed per head before they are rotated."""
    sandwich_norms: bool
    """The outputs of attention and feed-forward are normed before they join the residual stream."""
    norm_offset: float
    """Added to every stored norm weight: Gemma stores w of 1 + w."""
    activation: str
    """silu or gelu_tanh, as `Ops.gate` names them."""
    attention_scale: float
    embedding_scale: float
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]

    @property
    def group_size(self) -> int:
        """Query heads that share one key-value head."""
        return self.num_attention_heads // self.num_key_value_heads

    @property
    def kv_floats_per_layer(self) -> int:
        """Elements of keys and values of one token in one layer."""
        return 2 * self.num_key_value_heads * self.head_dim

    def shape(self) -> ModelShape:
        """As forecasts of other hardware take it."""
        windows = [window for window in self.windows if window is not None]
        return ModelShape(
            layers=self.num_hidden_layers,
            hidden=self.hidden_size,
            heads=self.num_attention_heads,
            kv_heads=self.num_key_value_heads,
            head_dim=self.head_dim,
            intermediate=self.intermediate_size,
            vocabulary=self.vocab_size,
            windowed_layers=len(windows),
            window=max(windows, default=0),
        )

    def ropes(self) -> tuple[Rope, ...]:
        """The distinct rules among the layers."""
        return tuple(dict.fromkeys(self.rope_of(layer) for layer in range(self.num_hidden_layers)))

    def rope_of(self, layer: int) -> Rope:
        return self.rope if self.windows[layer] is None else self.local_rope

    def cache_groups(self) -> tuple[CacheGroup, ...]:
        """How the layers share cache blocks: layers of equal window, split so that groups are of nearly equal size.

        A group has as many layers as the rarest kind, so that no block has unused room in the usual pattern (Gemma 3
        270M: 3 full layers and 15 sliding ones give six groups of 3), but not so few that a step handles more than
        about eight tables. Kinds that see further come first: group 0 sees the whole context where any layer does.
        """
        layers: dict[int | None, list[int]] = defaultdict(list)
        for layer, window in enumerate(self.windows):
            layers[window].append(layer)
        if len(layers) == 1:
            return (CacheGroup(tuple(range(self.num_hidden_layers)), self.windows[0]),)
        size = max(min(map(len, layers.values())), -(-self.num_hidden_layers // _MOST_GROUPS))
        by_reach = sorted(layers, key=lambda window: -window if window else -(2**62))
        return tuple(
            CacheGroup(tuple(layers[window][start : start + size]), window)
            for window in by_reach
            for start in range(0, len(layers[window]), size)
        )


def read_model_config(model_dir: Path) -> ModelConfig:
    """The folder's config.json. Raises `BadRequest` that names the file or field which cannot be served."""
    path = model_dir / CONFIG_FILE
    if not path.is_file():
        raise BadRequest(f"model folder {model_dir}: no {CONFIG_FILE}; give a Hugging Face model folder", field="model")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: not JSON ({error})", field=CONFIG_FILE) from error
    if not isinstance(raw, dict):
        raise BadRequest(f"{path}: holds no JSON object", field=CONFIG_FILE)
    return parse_model_config(raw)


def parse_model_config(raw: Mapping[str, Any]) -> ModelConfig:
    """Check a config.json's content; see `read_model_config`."""
    family, values = find_family(raw)
    for name in _REQUIRED:
        if not isinstance(values.get(name), int) or values[name] < 1:
            raise BadRequest(f"config.json: {name} is missing or no positive whole number", field=name)
    activation = values.get(family.activation_field, "silu")
    if activation not in _ACTIVATIONS:
        raise unsupported(family.activation_field, activation, f"one of {', '.join(_ACTIVATIONS)}")
    if values.get("quantization_config"):
        raise unsupported("quantization_config", "a quantized checkpoint", "float weights (the engine quantizes them)")
    for name in _MUST_BE_OFF:
        if values.get(name):
            raise unsupported(name, values[name], "null")
    heads = values["num_attention_heads"]
    kv_heads = values.get("num_key_value_heads") or heads
    if heads % kv_heads:
        raise unsupported("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads = {heads}")
    head_dim = values.get("head_dim") or values["hidden_size"] // heads
    if head_dim % 2:
        raise unsupported("head_dim", head_dim, "an even number, half of which turns against the other")
    rope, local_rope = layer_ropes(family, values, values["max_position_embeddings"])
    biased = bool(values.get("attention_bias", False))
    return ModelConfig(
        architecture=family.architecture,
        **{name: values[name] for name in _REQUIRED if name != "max_position_embeddings"},
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=_context(values["max_position_embeddings"], rope),
        rms_norm_eps=float(values.get("rms_norm_eps", 1e-6)),
        windows=layer_windows(family, values, values["num_hidden_layers"]),
        rope=rope,
        local_rope=local_rope,
        tie_word_embeddings=bool(values.get("tie_word_embeddings", False)),
        qkv_bias=biased if family.qkv_bias is None else family.qkv_bias,
        out_bias=biased if family.out_bias is None else family.out_bias,
        mlp_bias=bool(values.get("mlp_bias", False)),
        qk_norm=family.qk_norm,
        sandwich_norms=family.sandwich_norms,
        norm_offset=family.norm_offset,
        activation=_ACTIVATIONS[activation],
        attention_scale=float(values.get("query_pre_attn_scalar", head_dim)) ** -0.5,
        embedding_scale=values["hidden_size"] ** 0.5 if family.scaled_embedding else 1.0,
        bos_token_id=values.get("bos_token_id"),
        eos_token_ids=_token_ids(values.get("eos_token_id")),
    )


def _context(declared: int, rope: Rope) -> int:
    """Yarn's configs may still declare the context before it was stretched."""
    return max(declared, int(rope.original_max_position * rope.factor)) if rope.kind == "yarn" else declared


def _token_ids(value: int | list[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)
