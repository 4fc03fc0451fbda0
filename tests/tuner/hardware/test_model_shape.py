"""Sizes of models by their config.json: known ones are reproduced, what is not forecast is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.contract.errors import BadRequest
from tuner.hardware.model_shape import read_shape, shape_of

LLAMA_70B = {
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
}
BUNDLED = Path(__file__).resolve().parents[3] / "agents/models/tailwright-py-5m"


def test_a_known_model_has_its_known_sizes() -> None:
    """70.6 billion parameters and 327,680 bytes of bf16 KV cache a token, as Meta and vLLM say of Llama 3.1 70B."""
    shape = shape_of(LLAMA_70B)
    assert shape.layer_weights + 2 * shape.embedding_weights == pytest.approx(70.55e9, rel=1e-3)
    assert 2 * shape.kv_values_per_token(1) == 2 * shape.kv_values_per_token(8) == 327_680
    assert shape.kv_values_per_token(16) == 2 * shape.kv_values_per_token(8)


def test_a_head_has_its_own_width_where_it_says_so() -> None:
    """Qwen3-32B: 64 heads of 128 in a hidden size of 5,120; and without KV heads each head has its own."""
    qwen = {**LLAMA_70B, "hidden_size": 5120, "head_dim": 128}
    assert shape_of(qwen).head_dim == 128
    every = {name: size for name, size in LLAMA_70B.items() if name != "num_key_value_heads"}
    assert shape_of(every).kv_heads == 64
    assert shape_of({"text_config": LLAMA_70B, "vision_config": {}}) == shape_of(LLAMA_70B)


def test_the_bundled_model_is_read_as_the_engine_holds_it() -> None:
    from safetensors import safe_open

    shape = read_shape(BUNDLED)
    with safe_open(BUNDLED / "model.safetensors", framework="np") as file:
        held = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 - no dictionary.
    matrices = sum(rows[0] * rows[1] for rows in held.values() if len(rows) == 2)
    embeddings = sum(name.endswith(("embed_tokens.weight", "lm_head.weight")) for name in held)
    assert shape.layer_weights + embeddings * shape.embedding_weights == matrices


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"num_local_experts": 128}, "num_local_experts"),
        ({"n_routed_experts": 256}, "n_routed_experts"),
        ({"kv_lora_rank": 512}, "kv_lora_rank"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"vocab_size": 1.5}, "vocab_size"),
        ({"head_dim": -1}, "head_dim"),
    ],
)
def test_what_is_not_forecast_is_refused_by_name(change: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        shape_of({**LLAMA_70B, **change})
    assert refused.value.detail["field"] == field


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_a_file_that_is_no_configuration_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BadRequest):
        read_shape(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_70B))
    assert read_shape(tmp_path) == read_shape(tmp_path / "config.json") == shape_of(LLAMA_70B)
