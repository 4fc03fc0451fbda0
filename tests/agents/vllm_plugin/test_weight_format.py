"""The width of vLLM's weights, from what its checkpoint says; and what the agent makes of it."""

from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm.weight_format import weight_format

from agents.backends.vllm import weight_format as agents_own
from agents.backends.vllm.variants.formats import FORMATS


def told(name: str | None, checkpoint: Any = None) -> str | None:
    return weight_format(SimpleNamespace(quantization=name, hf_config=SimpleNamespace(quantization_config=checkpoint)))


@pytest.mark.parametrize("name", FORMATS)
def test_our_own_variants_are_known_by_their_checkpoint(name: str) -> None:
    said = told("compressed-tensors", FORMATS[name].quantization_config())
    assert agents_own.weight_format(said) == name


@pytest.mark.parametrize(
    ("name", "checkpoint", "plugin", "agent"),
    [
        (None, None, None, "none"),
        (None, {"bits": 4}, None, "none"),
        ("fp8", None, "fp8", "fp8"),
        ("gptq", {"bits": 8}, "gptq/int8", "int8"),
        ("gptq_marlin", {"bits": 4}, "gptq_marlin/int4", "int4"),
        ("gptq", {"bits": 3}, "gptq/int3", "gptq"),
        ("compressed-tensors", None, "compressed-tensors", "compressed-tensors"),
        ("compressed-tensors", {"config_groups": 3}, "compressed-tensors", "compressed-tensors"),
        (
            "compressed-tensors",
            {"config_groups": {"a": {"weights": {"type": "int", "num_bits": 8}}, "b": {"weights": {"num_bits": 4}}}},
            "compressed-tensors",
            "compressed-tensors",
        ),
    ],
)
def test_what_is_said(name: str | None, checkpoint: Any, plugin: str | None, agent: str) -> None:
    assert told(name, checkpoint) == plugin
    assert agents_own.weight_format(told(name, checkpoint)) == agent


def test_a_model_configuration_that_says_nothing() -> None:
    assert weight_format(None) is None
    assert weight_format(SimpleNamespace(quantization="awq")) == "awq"
