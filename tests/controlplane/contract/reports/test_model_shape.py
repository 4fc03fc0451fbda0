"""Sizes of models by their config.json: known ones are reproduced, what is not forecast is refused by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.model_shape import ModelShape, shape_of
from tests.controlplane.contract.reports.known_configs import DEEPSEEK_V3, LLAMA_70B

BUNDLED = Path(__file__).resolve().parents[4] / "agents/models/tailwright-py-5m"


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

    shape = shape_of(json.loads((BUNDLED / "config.json").read_text()))
    with safe_open(BUNDLED / "model.safetensors", framework="np") as file:
        held = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 - no dictionary.
    matrices = sum(rows[0] * rows[1] for rows in held.values() if len(rows) == 2)
    embeddings = sum(name.endswith(("embed_tokens.weight", "lm_head.weight")) for name in held)
    assert shape.layer_weights + embeddings * shape.embedding_weights == matrices


QWEN3_235B = {
    "num_hidden_layers": 94, "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936,
}  # fmt: skip
GPT_OSS = {
    "num_hidden_layers": 36, "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
    "intermediate_size": 2880, "num_local_experts": 128, "num_experts_per_tok": 4, "experts_per_token": 4,
    "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 18, "vocab_size": 201088,
}  # fmt: skip


def test_models_with_experts_have_their_known_sizes() -> None:
    """235 billion parameters, 22 of them for a token; 117 and 5.1 of gpt-oss-120b, as their makers say (embedding of
    the active counted once)."""
    qwen, oss = shape_of(QWEN3_235B), shape_of(GPT_OSS)
    assert qwen.layer_weights + 2 * qwen.embedding_weights == pytest.approx(235e9, rel=0.01)
    assert qwen.token_weights + 2 * qwen.embedding_weights == pytest.approx(22e9, rel=0.02)
    assert oss.layer_weights + 2 * oss.embedding_weights == pytest.approx(117e9, rel=0.01)
    assert oss.token_weights + oss.embedding_weights == pytest.approx(5.1e9, rel=0.03)
    assert (oss.windowed_layers, oss.window, oss.expert_layers) == (18, 128, 36)


DEEPSEEK_V2_LITE = {
    "num_hidden_layers": 27, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 16,
    "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "num_experts_per_tok": 6,
    "n_shared_experts": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 102400,
    "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
}  # fmt: skip


def test_models_with_latents_have_their_known_sizes() -> None:
    """671 billion parameters, 37 of them for a token, and 70,272 bytes of bf16 cache; 15.7 and 2.4 of V2-Lite, whose
    queries have no latent; as their makers say (embedding of the active counted once)."""
    v3, lite = shape_of(DEEPSEEK_V3), shape_of(DEEPSEEK_V2_LITE)
    assert v3.layer_weights + 2 * v3.embedding_weights == pytest.approx(671e9, rel=1e-3)
    assert v3.token_weights + v3.embedding_weights == pytest.approx(37e9, rel=0.02)
    assert 2 * v3.kv_values_per_token(1) == 70_272
    assert v3.kv_values_per_token(8) == 8 * v3.kv_values_per_token(1), "each rank has those of all heads"
    assert lite.layer_weights + 2 * lite.embedding_weights == pytest.approx(15.7e9, rel=2e-3)
    assert lite.token_weights + lite.embedding_weights == pytest.approx(2.4e9, rel=0.05)
    assert lite.q_lora_rank == 0


def test_products_of_a_pair_are_those_of_keys_and_of_values() -> None:
    v3, llama = shape_of(DEEPSEEK_V3), shape_of(LLAMA_70B)
    assert v3.pair_products == 128 * (128 + 64 + 128) and v3.latent_products == 128 * (512 + 64 + 512)
    assert llama.pair_products == 64 * 2 * 128 and llama.latent_products == 0


def test_experts_hit_are_those_of_draws_and_all_by_many_tokens() -> None:
    shape = shape_of(QWEN3_235B)
    random = np.random.default_rng(1)
    drawn = [len({one for _ in range(24) for one in random.choice(128, 8, replace=False)}) for _ in range(500)]
    hit = (shape.read_weights(24) - shape.dense_weights) / shape.expert_weights
    assert hit == pytest.approx(np.mean(drawn), rel=0.01)
    assert shape.read_weights(1) == pytest.approx(shape.token_weights)
    assert shape.read_weights(1e6) == pytest.approx(shape.layer_weights)


def test_shared_experts_and_dense_layers_are_read_by_every_token() -> None:
    plain = shape_of(QWEN3_235B)
    shared = shape_of({**QWEN3_235B, "n_shared_experts": 2, "first_k_dense_replace": 3})
    assert (shared.shared_intermediate, shared.dense_layers, shared.expert_layers) == (3072, 3, 91)
    more = 3 * 4096 * (3 * 12288 + 91 * 3072)
    assert shared.dense_weights - plain.dense_weights == more
    assert shape_of({**QWEN3_235B, "shared_expert_intermediate_size": 512}).shared_intermediate == 512


@pytest.mark.parametrize(
    "wrong",
    [
        {"experts": 8, "experts_a_token": 9, "expert_intermediate": 8},
        {"experts": 8},
        {"windowed_layers": 81, "window": 8},
        {"windowed_layers": 8},
        {"latents": 8},
        {"kv_lora_rank": 512},
        {"v_head_dim": 128},
        {"q_lora_rank": 1536},
        {"qk_rope_head_dim": 64},
    ],
)
def test_sizes_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    good = shape_of(LLAMA_70B).model_dump()
    assert ModelShape.model_validate(good) == shape_of(LLAMA_70B)
    with pytest.raises(ValidationError):
        ModelShape.model_validate(good | wrong)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"num_local_experts": 128}, "num_experts_per_tok"),
        ({"num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 2}, "decoder_sparse_step"),
        (
            {"num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1},
            "interleave_moe_layer_step",
        ),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim"),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128}, "qk_nope_head_dim"),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128, "index_topk": 2048}, "index_topk"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "layer_types"),
        ({"layer_types": ["sliding_attention"]}, "sliding_window"),
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
