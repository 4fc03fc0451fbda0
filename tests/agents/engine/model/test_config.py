"""What config.json may say, and how the rest is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from agents.engine.model.config import parse_model_config
from agents.engine.options import EngineOptions
from agents.engine.scheduling.cache_groups import CacheGroup
from controlplane.contract.errors import BadRequest

BASE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "vocab_size": 320,
    "max_position_embeddings": 2048,
}
QWEN_SLIDING: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "use_sliding_window": True,
    "sliding_window": 32,
    "max_window_layers": 1,
}
GEMMA: dict[str, Any] = {"architectures": ["Gemma3ForCausalLM"], "num_hidden_layers": 18, "sliding_window": 512}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "architectures"),
        ({"architectures": [], "model_type": "mamba"}, "model_type"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "rope_type"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor"),
        ({"partial_rotary_factor": 0.25}, "partial_rotary_factor"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "rope_parameters"),
        ({"head_dim": 15}, "head_dim"),
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
        ({**QWEN_SLIDING, "layer_types": ["full_attention"]}, "layer_types"),
        ({**QWEN_SLIDING, "layer_types": ["full_attention", "chunked_attention"]}, "layer_types"),
        ({**QWEN_SLIDING, "sliding_window": 0, "max_window_layers": 1}, "sliding_window"),
        ({"architectures": ["Gemma3ForConditionalGeneration"]}, "text_config"),
        ({**GEMMA, "attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ({**GEMMA, "use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ({**GEMMA, "hidden_activation": "relu"}, "hidden_activation"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
    ],
)
def test_what_is_not_supported_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest, match=field) as refused:
        parse_model_config({**BASE, **change})
    assert refused.value.detail["field"] == field


def test_the_message_tells_field_value_and_what_is_wanted() -> None:
    with pytest.raises(BadRequest) as refused:
        parse_model_config({**BASE, "architectures": ["MambaForCausalLM"]})
    for part in ("architectures", "MambaForCausalLM", "LlamaForCausalLM", "Qwen3ForCausalLM", "Gemma3ForCausalLM"):
        assert part in refused.value.message


def test_full_layers_come_first_and_groups_are_as_large_as_the_rarest_kind() -> None:
    assert parse_model_config({**BASE, **GEMMA}).cache_groups() == (
        CacheGroup((5, 11, 17)),
        CacheGroup((0, 1, 2), 512),
        CacheGroup((3, 4, 6), 512),
        CacheGroup((7, 8, 9), 512),
        CacheGroup((10, 12, 13), 512),
        CacheGroup((14, 15, 16), 512),
    )


@pytest.mark.parametrize("full", range(49))
def test_groups_hold_each_layer_once_and_are_few(full: int) -> None:
    kinds = ["full_attention"] * full + ["sliding_attention"] * (48 - full)
    config = parse_model_config({**BASE, **GEMMA, "num_hidden_layers": 48, "layer_types": kinds})
    groups = config.cache_groups()
    assert sorted(layer for group in groups for layer in group.layers) == list(range(48))
    assert all(config.windows[layer] == group.window for group in groups for layer in group.layers)
    assert groups[0].window is None or not full
    assert len(groups) <= 9 and (len(groups) == 1) == (full in (0, 48))


def test_qwen_slides_only_where_it_is_switched_on() -> None:
    assert parse_model_config({**BASE, **QWEN_SLIDING}).windows == (None, 32)
    assert parse_model_config({**BASE, **QWEN_SLIDING, "use_sliding_window": False}).windows == (None, None)
    assert parse_model_config({**BASE, **QWEN_SLIDING, "max_window_layers": 0}).cache_groups() == (
        CacheGroup((0, 1), 32),
    )


def test_gemmas_pattern_is_read_in_every_form() -> None:
    default = parse_model_config({**BASE, **GEMMA}).windows
    assert [layer for layer, window in enumerate(default) if window is None] == [5, 11, 17]
    for name in ("sliding_window_pattern", "_sliding_window_pattern"):
        windows = parse_model_config({**BASE, **GEMMA, name: 3}).windows
        assert [layer for layer, window in enumerate(windows) if window is None] == [2, 5, 8, 11, 14, 17]


def test_gemmas_ropes_are_read_in_every_form() -> None:
    newer = {
        "full_attention": {"rope_type": "linear", "rope_theta": 3e6, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5e3},
    }
    older = {"rope_theta": 3e6, "rope_local_base_freq": 5e3, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    by_new, by_old = (parse_model_config({**BASE, **GEMMA, **rope}) for rope in ({"rope_parameters": newer}, older))
    assert by_new == by_old
    assert (by_new.rope.theta, by_new.rope.factor, by_new.local_rope.theta) == (3e6, 8.0, 5e3)
    plain = parse_model_config({**BASE, **GEMMA})
    assert (plain.rope.theta, plain.local_rope.theta) == (1e6, 1e4)
    assert [plain.rope_of(layer).theta for layer in (0, 5)] == [1e4, 1e6]


def test_the_text_part_of_a_multimodal_gemma_is_read() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    raw = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text, "eos_token_id": [1, 106]}
    config = parse_model_config(raw)
    assert (config.architecture, config.num_attention_heads, config.vocab_size) == ("Gemma3ForCausalLM", 8, 262208)
    assert config.eos_token_ids == (1, 106) and config.tie_word_embeddings


def test_yarn_serves_the_context_it_stretches_to() -> None:
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    assert parse_model_config({**BASE, "rope_scaling": yarn}).max_position_embeddings == 8192


@pytest.mark.parametrize(
    ("architecture", "biases", "qk_norm"),
    [("Llama", (False, False), False), ("Qwen2", (True, False), False), ("Qwen3", (False, False), True)],
)
def test_families_differ_by_flags(architecture: str, biases: tuple[bool, bool], qk_norm: bool) -> None:
    config = parse_model_config({**BASE, "architectures": [f"{architecture}ForCausalLM"], "head_dim": 16})
    assert ((config.qkv_bias, config.out_bias), config.qk_norm, config.embedding_scale) == (biases, qk_norm, 1.0)
    assert config.attention_scale == 0.25


def test_defaults_follow_the_architecture() -> None:
    config = parse_model_config({**BASE, "eos_token_id": [1, 2]})
    assert (config.num_key_value_heads, config.head_dim, config.eos_token_ids) == (4, 16, (1, 2))


@pytest.mark.parametrize(
    "option",
    [
        {"dtype": "float8"},
        {"device": "tpu"},
        {"kernels": "fast"},
        {"block_size": 24},
        {"kv_cache_memory_bytes": 0},
        {"threads": 0},
        {"speculative_method": "medusa"},
        {"speculative_method": "draft_model"},
    ],
)
def test_bad_options_are_named(tmp_path: Any, option: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        EngineOptions(tmp_path, **option)
    assert next(iter(option)) in str(refused.value)


def test_its_sizes_count_layers_with_a_window() -> None:
    kinds = (["sliding_attention"] * 5 + ["full_attention"]) * 3
    shape = parse_model_config({**BASE, **GEMMA, "layer_types": kinds}).shape()
    assert (shape.layers, shape.windowed_layers, shape.window, shape.head_dim) == (18, 15, 512, 256)
    assert parse_model_config(BASE).shape().windowed_layers == 0
