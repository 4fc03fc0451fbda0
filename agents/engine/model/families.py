"""The architectures this engine computes, and what each fixes that config.json leaves unsaid.

Adding one means a line in `FAMILIES`, if the decoder's flags can express it. Values are those of transformers' classes
of the same names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from agents.engine.model.rope import Rope, parse_rope
from agents.engine.model.unsupported import unsupported
from controlplane.contract.errors import BadRequest

SLIDING, FULL = "sliding_attention", "full_attention"  # Names in config.json's layer_types and rope_parameters.


class Sliding(Enum):
    """Where config.json says which layers see a window only."""

    NEVER = "never"  # All layers see everything.
    FROM_A_LAYER = "from a layer"  # use_sliding_window, and layers from max_window_layers on.
    PATTERN = "pattern"  # All but each sliding_window_pattern-th.


@dataclass(frozen=True)
class Family:
    """qkv_bias, out_bias: None where config.json's attention_bias decides. local_theta: the rope base of sliding layers
    where they have a rope of their own. defaults: what config.json may leave out."""

    architecture: str
    model_type: str
    sliding: Sliding
    qkv_bias: bool | None = None
    out_bias: bool | None = None
    qk_norm: bool = False
    sandwich_norms: bool = False
    norm_offset: float = 0.0
    scaled_embedding: bool = False
    activation_field: str = "hidden_act"
    local_theta: float | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)


_GEMMA3_DEFAULTS = {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "max_position_embeddings": 131072,
    "vocab_size": 262208,
    "query_pre_attn_scalar": 256,
    "rope_theta": 1000000.0,
    "sliding_window": 4096,
    "tie_word_embeddings": True,
    "bos_token_id": 2,
    "eos_token_id": 1,
}

FAMILIES = (
    Family("LlamaForCausalLM", "llama", Sliding.NEVER),
    Family("Qwen2ForCausalLM", "qwen2", Sliding.FROM_A_LAYER, qkv_bias=True, out_bias=False),
    Family("Qwen3ForCausalLM", "qwen3", Sliding.FROM_A_LAYER, qk_norm=True, defaults={"head_dim": 128}),
    Family(
        "Gemma3ForCausalLM",
        "gemma3_text",
        Sliding.PATTERN,
        qk_norm=True,
        sandwich_norms=True,
        norm_offset=1.0,
        scaled_embedding=True,
        activation_field="hidden_activation",
        local_theta=10000.0,
        defaults=_GEMMA3_DEFAULTS,
    ),
)

_MULTIMODAL = {"Gemma3ForConditionalGeneration": "gemma3"}
"""Architectures whose text_config is a family above, and their model types; images are not served."""


def find_family(raw: Mapping[str, Any]) -> tuple[Family, dict[str, Any]]:
    """The family and the text model's values, defaults filled in. Raises `BadRequest` for an unknown architecture."""
    architectures = raw.get("architectures") or []
    model_type = raw.get("model_type")
    if set(architectures) & set(_MULTIMODAL) or (not architectures and model_type in _MULTIMODAL.values()):
        return find_family(_text_part(raw))
    for family in FAMILIES:
        if family.architecture in architectures or (not architectures and family.model_type == model_type):
            return family, {**family.defaults, **{name: value for name, value in raw.items() if value is not None}}
    if architectures:
        names = [*(family.architecture for family in FAMILIES), *_MULTIMODAL]
        raise unsupported("architectures", architectures, f"one of {', '.join(names)}")
    raise unsupported("model_type", model_type, f"one of {', '.join(family.model_type for family in FAMILIES)}")


def layer_windows(family: Family, raw: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    """Each layer's window in tokens; None: the layer sees everything before it."""
    if family.sliding is Sliding.NEVER:
        return (None,) * layers
    window = raw.get("sliding_window")
    if family.sliding is Sliding.FROM_A_LAYER and not raw.get("use_sliding_window"):
        window = None
    kinds = raw.get("layer_types") or _kinds(family, raw, layers, window)
    if len(kinds) != layers:
        raise BadRequest(f"config.json: layer_types names {len(kinds)} layers of {layers}", field="layer_types")
    if odd := sorted(set(kinds) - {SLIDING, FULL}):
        raise unsupported("layer_types", odd[0], f"{SLIDING} or {FULL}")
    if SLIDING in kinds and (not isinstance(window, int) or window < 1):
        raise unsupported("sliding_window", window, "a positive number of tokens, for layers that slide")
    return tuple(window if kind == SLIDING else None for kind in kinds)


def layer_ropes(family: Family, raw: Mapping[str, Any], max_position: int) -> tuple[Rope, Rope]:
    """The rope of full layers and of sliding ones, in either form: `rope_parameters` (transformers 5; by layer type
    where they differ) or `rope_theta`, `rope_scaling` and `rope_local_base_freq` (before)."""
    outer = {name: raw[name] for name in ("rope_theta", "partial_rotary_factor") if name in raw}
    given: dict[str, Any] = dict(raw.get("rope_parameters") or {})
    by_kind = {kind: given.pop(kind) or {} for kind in (FULL, SLIDING) if kind in given}
    rope = parse_rope({**outer, **(raw.get("rope_scaling") or {}), **given, **by_kind.get(FULL, {})}, max_position)
    if family.local_theta is None:
        if by_kind:
            raise unsupported("rope_parameters", "by layer type", f"one rule for all layers of {family.architecture}")
        return rope, rope
    local = {"rope_theta": raw.get("rope_local_base_freq", family.local_theta), **by_kind.get(SLIDING, {})}
    return rope, parse_rope(local, max_position)


def _kinds(family: Family, raw: Mapping[str, Any], layers: int, window: int | None) -> list[str]:
    if family.sliding is Sliding.PATTERN:
        period = int(raw.get("sliding_window_pattern") or raw.get("_sliding_window_pattern") or 6)
        return [SLIDING if (layer + 1) % period else FULL for layer in range(layers)]
    first = raw.get("max_window_layers", 28)
    return [SLIDING if window is not None and layer >= first else FULL for layer in range(layers)]


def _text_part(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A multimodal config's text model; what stands outside of it counts for all of its parts."""
    text = raw.get("text_config")
    if not isinstance(text, dict):
        raise BadRequest("config.json: text_config is missing; the text model cannot be read", field="text_config")
    outer = {
        name: raw[name]
        for name in ("bos_token_id", "eos_token_id", "tie_word_embeddings", "quantization_config")
        if raw.get(name) is not None
    }
    return {**text, **outer, "architectures": None, "model_type": text.get("model_type", "gemma3_text")}
