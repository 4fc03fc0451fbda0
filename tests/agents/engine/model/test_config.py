"""What config.json may say, and how the rest is refused."""

from typing import Any

import pytest
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from agents.engine.model.config import parse_model_config
from agents.engine.options import EngineOptions
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
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "architectures"),
        ({"architectures": [], "model_type": "mamba"}, "model_type"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope_type"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
    ],
)
def test_what_is_not_supported_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest, match=field) as refused:
        parse_model_config({**BASE, **change})
    assert refused.value.detail["field"] == field


def test_llama3_frequencies_are_those_of_transformers() -> None:
    config = parse_model_config({**BASE, "rope_parameters": LLAMA3})
    wanted, _ = ROPE_INIT_FUNCTIONS["llama3"](
        LlamaConfig(**{name: value for name, value in BASE.items() if name != "architectures"}, rope_parameters=LLAMA3),
        "cpu",
    )
    assert config.rope.inverse_frequencies(config.head_dim) == pytest.approx(wanted.tolist(), rel=1e-5)


def test_the_older_form_of_rope_is_read_too() -> None:
    older = {name: value for name, value in LLAMA3.items() if name not in ("rope_theta", "rope_type")}
    config = parse_model_config({**BASE, "rope_theta": 500000.0, "rope_scaling": {"type": "llama3", **older}})
    assert config.rope == parse_model_config({**BASE, "rope_parameters": LLAMA3}).rope


def test_defaults_follow_the_architecture() -> None:
    config = parse_model_config({**BASE, "eos_token_id": [1, 2]})
    assert (config.num_key_value_heads, config.head_dim, config.eos_token_ids) == (4, 16, (1, 2))


@pytest.mark.parametrize(
    "option",
    [
        {"dtype": "float8"},
        {"block_size": 24},
        {"kv_cache_bytes": 0},
        {"num_threads": 0},
        {"speculative_method": "medusa"},
        {"speculative_method": "draft_model"},
    ],
)
def test_bad_options_are_named(tmp_path: Any, option: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as refused:
        EngineOptions(tmp_path, **option)
    assert refused.value.detail["field"] in (*option, "draft_model_dir")
