"""What a variant's files say of its weights: no more than vLLM would hold, or nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from agents.backends.vllm.managed.variant_sizes import by_format, variant_sizes
from agents.backends.vllm.node_file import NodeFile
from controlplane.contract.knobs import Quantization

PLAIN, INT8 = Quantization.NONE, Quantization.INT8


def folder(place: Path, tensors: dict[str, torch.Tensor], **config: Any) -> Path:
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config))
    for number, (name, tensor) in enumerate(tensors.items()):
        save_file({name: tensor}, place / f"model-{number}.safetensors")
    return place


def node(*arguments: str, **models: Any) -> NodeFile:
    variants = {name: {"model": str(model)} for name, model in models.items()}
    return NodeFile.model_validate(
        {"executable": "vllm", "served_model_name": "m", "variants": variants, "arguments": list(arguments)}
    )


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return folder(tmp_path / "plain", {"up.weight": torch.zeros(10, 4), "norm": torch.zeros(4, dtype=torch.bfloat16)})


def test_plain_weights_count_as_narrow_as_vllm_can_make_them(plain: Path, tmp_path: Path) -> None:
    narrow = folder(
        tmp_path / "narrow",
        {
            "up.weight": torch.zeros(10, 4, dtype=torch.int8),
            "up.scale": torch.zeros(10, 1),
            "packed": torch.zeros(3, dtype=torch.int32),
            "f": torch.zeros(5).to(torch.float8_e4m3fn),
        },
    )
    assert variant_sizes(node(none=plain, int8=narrow)) == {PLAIN: 44 * 2, INT8: 40 + 20 + 12 + 5}


def test_a_head_that_is_the_embedding_again_counts_once(tmp_path: Path) -> None:
    tensors = {"model.embed_tokens.weight": torch.zeros(6, 2), "lm_head.weight": torch.zeros(6, 2)}
    tied = folder(tmp_path / "tied", tensors, tie_word_embeddings=True)
    assert variant_sizes(node(none=tied)) == {PLAIN: 24}
    assert variant_sizes(node(none=folder(tmp_path / "own", tensors))) == {PLAIN: 48}


@pytest.mark.parametrize("argument", ["--load-format=dummy", "--hf-overrides.num_hidden_layers", "--hf-overrides"])
def test_weights_that_vllm_does_not_take_from_the_files_are_not_told(plain: Path, argument: str) -> None:
    assert variant_sizes(node(argument, none=plain)) == {}
    assert variant_sizes(node("--dtype=bfloat16", none=plain)) == {PLAIN: 88}


def test_a_variant_that_vllm_itself_quantizes_is_not_told(plain: Path) -> None:
    variants = {"none": {"model": str(plain)}, "fp8": {"model": str(plain), "arguments": ["--quantization", "fp8"]}}
    found = NodeFile.model_validate({"executable": "vllm", "served_model_name": "m", "variants": variants})
    assert variant_sizes(found) == {PLAIN: 88}


def test_what_is_no_such_folder_is_not_told(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    other = folder(tmp_path / "other", {"norm": torch.zeros(4)})
    (other / "model-0.safetensors").write_bytes(b"\xff" * 20)
    sparse = folder(tmp_path / "complex", {"norm": torch.zeros(4, dtype=torch.complex64)})
    for model in ("google/gemma", tmp_path / "none", tmp_path / "empty", other, sparse):
        assert variant_sizes(node(none=plain, int8=model)) == {PLAIN: 88}


@pytest.mark.parametrize(("held", "other"), [(100, 60), (176, 60), (50, 30)])
def test_others_are_reckoned_down_where_vllm_loads_a_part(held: int, other: int) -> None:
    assert by_format({PLAIN: 100, INT8: 60}, "none", held) == {"none": held, "int8": other}


def test_without_files_the_running_format_is_told_alone() -> None:
    assert by_format({}, "awq", 7) == {"awq": 7}
    assert by_format({PLAIN: 100}, "awq", 7) == {"none": 100, "awq": 7}
