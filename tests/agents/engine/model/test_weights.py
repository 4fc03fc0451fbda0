"""What is wrong with a checkpoint is told by the tensor's name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.engine.model.config import read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.runner import Rows, Runner
from agents.engine.model.weights import WeightFolder
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import Quantization

Tensors = dict[str, torch.Tensor]
DOWN = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture
def changed(model_dirs: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """A copy of a folder with other tensors."""

    def change(change_tensors: Callable[[Tensors], Tensors], shape: str = "grouped_tied") -> Path:
        folder = tmp_path / "model"
        shutil.copytree(model_dirs[shape], folder)
        save_file(change_tensors(load_file(folder / "model.safetensors")), folder / "model.safetensors")
        return folder

    return change


def _load(folder: Path) -> Decoder:
    return Decoder.load(folder, read_model_config(folder), Quantization.NONE, torch.float32)


def _logits(folder: Path) -> torch.Tensor:
    decoder = _load(folder)
    groups = len(decoder.config.cache_groups())
    with torch.inference_mode():
        return Runner(decoder, 9 * groups, 16).forward(
            [Rows(list(range(3, 40)), 0, [list(range(1 + 9 * group, 5 + 9 * group)) for group in range(groups)], 37)]
        )


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda tensors: {name: value for name, value in tensors.items() if name != DOWN}, ["lack", DOWN]),
        (lambda tensors: tensors | {DOWN: tensors[DOWN][:, :-1].clone()}, [DOWN, "(64, 95)", "(64, 96)"]),
        (lambda tensors: tensors | {DOWN: tensors[DOWN].to(torch.int8)}, [DOWN, "int8"]),
        (lambda tensors: tensors | {DOWN: tensors[DOWN].to(torch.float8_e4m3fn)}, [DOWN, "float8"]),
    ],
    ids=["missing", "shape", "int8", "float8"],
)
def test_a_wrong_tensor_is_named(
    changed: Callable[..., Path], change: Callable[[Tensors], Tensors], parts: list[str]
) -> None:
    with pytest.raises(BadRequest) as refused:
        _load(changed(change))
    assert all(part in refused.value.message for part in parts), refused.value.message


def test_an_untied_model_without_a_head_is_refused(changed: Callable[..., Path]) -> None:
    folder = changed(
        lambda tensors: {name: value for name, value in tensors.items() if name != "lm_head.weight"}, "qwen3"
    )
    with pytest.raises(BadRequest, match=r"lm_head\.weight"):
        _load(folder)


def test_no_checkpoint_and_broken_ones_are_named(model_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"neither model\.safetensors"):
        WeightFolder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors here")
    with pytest.raises(BadRequest, match="no safetensors file"):
        WeightFolder(tmp_path)
    index = {"weight_map": {"model.norm.weight": "model-1.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(BadRequest, match=r"names model-1\.safetensors"):
        WeightFolder(tmp_path).read("model.norm.weight", torch.float32, (64,))


def test_several_files_are_one_checkpoint(model_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sharded"
    shutil.copytree(model_dir, folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, own in parts.items():
        save_file({name: tensors[name] for name in own}, folder / file)
    index = {"weight_map": {name: file for file, own in parts.items() for name in own}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert torch.equal(_logits(folder), _logits(model_dir))


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_text_model_within_a_multimodal_one_is_found(
    model_dirs: dict[str, Path], changed: Callable[..., Path], prefix: str
) -> None:
    folder = changed(
        lambda tensors: {prefix + name.removeprefix("model."): value for name, value in tensors.items()}, "gemma3"
    )
    text = json.loads((folder / "config.json").read_text())
    outer = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text}
    (folder / "config.json").write_text(json.dumps(outer))
    assert torch.equal(_logits(folder), _logits(model_dirs["gemma3"]))
