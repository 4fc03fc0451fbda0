"""What a model's configuration says of its sizes is told as it stands; what is none of it costs nothing."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm.memory.model_sizes import model_sizes

from agents.backends.vllm.measures.told_memory import told_shape

LLAMA = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 320,
    "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 32,
}  # fmt: skip


def told(config: Any) -> dict[str, Any]:
    found = model_sizes(SimpleNamespace(hf_text_config=SimpleNamespace(to_dict=lambda: config)))
    assert json.loads(json.dumps(found)) == found
    return found


def test_sizes_go_through_to_the_agent() -> None:
    found = told({**LLAMA, "rope": {"a": 1}, "torch_dtype": object(), "id2label": {0: "x"}})
    assert found == LLAMA
    shape = told_shape(found)
    assert shape is not None and (shape.layers, shape.kv_heads, shape.windowed_layers) == (2, 4, 1)


@pytest.mark.parametrize(
    "sizes", [None, {}, 3, {"hidden_size": 64}, {**LLAMA, "kv_lora_rank": 8}, LLAMA | {"layer_types": 3}]
)
def test_what_is_no_shape_is_not_told(sizes: Any) -> None:
    assert told_shape(sizes) is None


def test_a_configuration_that_fails_costs_nothing() -> None:
    def fails() -> dict[str, Any]:
        raise RuntimeError("remote code")

    assert model_sizes(None) == model_sizes(SimpleNamespace()) == {}
    assert model_sizes(SimpleNamespace(hf_text_config=SimpleNamespace(to_dict=fails))) == {}
