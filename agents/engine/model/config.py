"""The shape of a model, read from the config.json of a Hugging Face folder.

Guarantee: a `ModelConfig` describes a model that `decoder.py` computes exactly; anything else in the folder's
configuration that would change the result is refused with an error that names it.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.engine.scheduling.cache_groups import CacheGroup
from controlplane.contract.errors import BadRequest

CONFIG_FILE = "config.json"
_REQUIRED = (
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "vocab_size",
    "max_position_embeddings",
)


@dataclass(frozen=True)
class Rope:
    """Rotary positions. kind is default, linear or llama3; the factors count only for the kinds that use them."""

    kind: str = "default"
    theta: float = 10000.0
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192

    def inverse_frequencies(self, head_dim: int) -> list[float]:
        """Angle per position of each pair, head_dim / 2 values (Su et al. 2021; llama3: Llama 3.1's rule)."""
        plain = [self.theta ** -(index / head_dim) for index in range(0, head_dim, 2)]
        if self.kind == "linear":
            return [frequency / self.factor for frequency in plain]
        if self.kind == "llama3":
            return [self._llama3(frequency) for frequency in plain]
        return plain

    def _llama3(self, frequency: float) -> float:
        """Long waves are stretched by the factor, short ones kept, those between are blended."""
        turns = self.original_max_position * frequency / (2 * math.pi)
        if turns <= self.low_freq_factor:
            return frequency / self.factor
        if turns >= self.high_freq_factor:
            return frequency
        blend = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        return (1 - blend) * frequency / self.factor + blend * frequency


@dataclass(frozen=True)
class ModelConfig:
    """Sizes in elements, named as in config.json."""

    hidden_size: int
    num_hidden_layers: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope: Rope
    tie_word_embeddings: bool
    attention_bias: bool
    mlp_bias: bool
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]

    @property
    def group_size(self) -> int:
        """Query heads that share one key-value head."""
        return self.num_attention_heads // self.num_key_value_heads

    @property
    def kv_floats_per_token(self) -> int:
        """Elements of keys and values of one token over all layers."""
        return 2 * self.num_hidden_layers * self.num_key_value_heads * self.head_dim

    def cache_groups(self) -> tuple[CacheGroup, ...]:
        """How the layers share cache blocks."""
        return (CacheGroup(tuple(range(self.num_hidden_layers))),)


def read_model_config(model_dir: Path) -> ModelConfig:
    """The folder's config.json. Raises `BadRequest` that names the file or field which cannot be served."""
    path = model_dir / CONFIG_FILE
    if not path.is_file():
        raise BadRequest(
            f"model folder {model_dir}: no {CONFIG_FILE}; give a Hugging Face model folder", field="model_dir"
        )
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise BadRequest(f"{path}: not JSON ({error})", field=CONFIG_FILE) from error
    return parse_model_config(raw)


def parse_model_config(raw: dict[str, Any]) -> ModelConfig:
    """Check a config.json's content; see `read_model_config`."""
    architectures = raw.get("architectures") or []
    if architectures and "LlamaForCausalLM" not in architectures:
        raise _unsupported("architectures", architectures, "LlamaForCausalLM")
    if not architectures and raw.get("model_type") != "llama":
        raise _unsupported("model_type", raw.get("model_type"), "llama")
    for name in _REQUIRED:
        if not isinstance(raw.get(name), int):
            raise BadRequest(f"config.json: {name} is missing or no whole number", field=name)
    if raw.get("hidden_act", "silu") != "silu":
        raise _unsupported("hidden_act", raw["hidden_act"], "silu")
    if raw.get("quantization_config"):
        raise _unsupported("quantization_config", "a quantized checkpoint", "float weights (the engine quantizes them)")
    heads = raw["num_attention_heads"]
    kv_heads = raw.get("num_key_value_heads") or heads
    if heads % kv_heads:
        raise _unsupported("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads = {heads}")
    return ModelConfig(
        **{name: raw[name] for name in _REQUIRED},
        num_key_value_heads=kv_heads,
        head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
        rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
        rope=_rope(raw),
        tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
        attention_bias=bool(raw.get("attention_bias", False)),
        mlp_bias=bool(raw.get("mlp_bias", False)),
        bos_token_id=raw.get("bos_token_id"),
        eos_token_ids=_token_ids(raw.get("eos_token_id")),
    )


def _rope(raw: dict[str, Any]) -> Rope:
    """Both forms: `rope_parameters` (transformers 5) and `rope_theta` with `rope_scaling` (before)."""
    values: dict[str, Any] = {**(raw.get("rope_scaling") or {}), **(raw.get("rope_parameters") or {})}
    kind = values.get("rope_type") or values.get("type") or "default"
    if kind not in ("default", "linear", "llama3"):
        raise _unsupported("rope_type", kind, "default, linear or llama3")
    if (partial := values.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0))) != 1.0:
        raise _unsupported("partial_rotary_factor", partial, "1.0")
    original = values.get("original_max_position_embeddings") or raw["max_position_embeddings"]
    return Rope(
        kind=kind,
        theta=float(values.get("rope_theta") or raw.get("rope_theta") or 10000.0),
        factor=float(values.get("factor", 1.0)),
        low_freq_factor=float(values.get("low_freq_factor", 1.0)),
        high_freq_factor=float(values.get("high_freq_factor", 4.0)),
        original_max_position=int(original),
    )


def _token_ids(value: int | list[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def _unsupported(field: str, value: object, wanted: str) -> BadRequest:
    return BadRequest(f"config.json: {field} = {value!r} is not supported; this engine wants {wanted}", field=field)
