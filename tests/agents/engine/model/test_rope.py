"""Frequencies and scaling of every rope rule against transformers' own."""

from typing import Any

import pytest
import torch
import transformers

from agents.engine.model.rope import KINDS, Rope, parse_rope

CONTEXT = 4096
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}
RULES: list[dict[str, Any]] = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {"rope_type": "llama3", "factor": 8.0, **LLAMA3},
    {"rope_type": "llama3", "factor": 32.0, **LLAMA3, "original_max_position_embeddings": 8192},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "truncate": False},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512, "beta_fast": 16, "beta_slow": 2},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512, "attention_factor": 0.9},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512, "mscale": 0.7, "mscale_all_dim": 1.0},
]


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["rope_type"]))
@pytest.mark.parametrize("head_dim", [16, 64, 128])
@pytest.mark.parametrize("theta", [10000.0, 500000.0])
def test_equals_transformers(rule: dict[str, Any], head_dim: int, theta: float) -> None:
    values = {"rope_theta": theta, **rule}
    config = transformers.LlamaConfig(
        head_dim=head_dim, max_position_embeddings=CONTEXT, num_attention_heads=2, rope_parameters=dict(values)
    )
    wanted, scaling = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS[rule["rope_type"]](config, "cpu")
    rope = parse_rope(values, CONTEXT)
    assert torch.equal(rope.inverse_frequencies(head_dim), wanted)
    assert rope.scaling == scaling


def test_every_kind_is_tested() -> None:
    assert {rule["rope_type"] for rule in RULES} | {"default"} == set(KINDS)


def test_the_older_names_mean_the_same() -> None:
    newer = parse_rope({"rope_theta": 5e5, "rope_type": "llama3", "factor": 8.0, **LLAMA3}, CONTEXT)
    assert parse_rope({"rope_theta": 5e5, "type": "llama3", "factor": 8.0, **LLAMA3}, CONTEXT) == newer


def test_a_table_turns_pairs_by_their_angles() -> None:
    cos, sin = Rope().table(8, 50, torch.float32, torch.device("cpu"))
    vector = torch.randn(8)
    turned = vector * cos[7] + torch.cat((vector[4:], vector[:4])) * sin[7]
    angles = 7 * Rope().inverse_frequencies(8)
    halves = torch.complex(vector[:4], vector[4:]) * torch.polar(torch.ones(4), angles)
    torch.testing.assert_close(turned, torch.cat((halves.real, halves.imag)))
