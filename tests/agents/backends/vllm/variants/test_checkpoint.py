"""A variant is whole or not there, the same each time, and nothing is overwritten."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.backends.vllm.variants.__main__ import main
from agents.backends.vllm.variants.checkpoint import MADE, write_variant
from agents.backends.vllm.variants.formats import FORMATS, BadVariant, format_named

INT8 = format_named("int8")
LAYER = "model.layers.0"


def model(folder: Path, files: int = 1, **config: Any) -> Path:
    """A tiny checkpoint: an embedding, a norm, two projections, over so many files."""
    folder.mkdir()
    drawn = torch.Generator().manual_seed(1)
    tensors = {
        "model.embed_tokens.weight": torch.randn(16, 128, generator=drawn),
        f"{LAYER}.input_layernorm.weight": torch.ones(128),
        f"{LAYER}.self_attn.q_proj.weight": torch.randn(32, 128, generator=drawn),
        f"{LAYER}.self_attn.q_proj.bias": torch.randn(32, generator=drawn),
        f"{LAYER}.mlp.down_proj.weight": torch.randn(128, 256, generator=drawn),
        "lm_head.weight": torch.randn(16, 128, generator=drawn),
    }
    names = sorted(tensors)
    for number in range(files):
        own = {name: tensors[name] for name in names[number::files]}
        save_file(own, folder / f"model-{number + 1:05}.safetensors", metadata={"format": "pt"})
    told = {"architectures": ["LlamaForCausalLM"], "hidden_size": 128, **config}
    (folder / "config.json").write_text(json.dumps(told))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_projections_are_quantized_and_the_rest_is_as_it_was(tmp_path: Path) -> None:
    source = model(tmp_path / "plain")
    assert write_variant(source, tmp_path / "int8", INT8)
    plain, made = (load_file(folder / "model-00001.safetensors") for folder in (source, tmp_path / "int8"))
    for name in (f"{LAYER}.self_attn.q_proj", f"{LAYER}.mlp.down_proj"):
        scale = made.pop(f"{name}.weight_scale")
        error = (made[f"{name}.weight"].float() * scale - plain[f"{name}.weight"]).abs()
        assert bool((error <= 0.5001 * scale).all())
        del made[f"{name}.weight"], plain[f"{name}.weight"]
    assert made.keys() == plain.keys()
    assert all(torch.equal(made[name], plain[name]) for name in plain)
    assert (tmp_path / "int8/tokenizer.json").read_text() == "{}"


@pytest.mark.parametrize("name", FORMATS)
def test_config_says_what_was_done(tmp_path: Path, name: str) -> None:
    source = model(tmp_path / "plain")
    write_variant(source, tmp_path / "made", format_named(name))
    config = json.loads((tmp_path / "made/config.json").read_text())
    told = config.pop("quantization_config")
    assert config == json.loads((source / "config.json").read_text())
    assert (told["quant_method"], told["ignore"]) == ("compressed-tensors", ["lm_head"])
    (group,) = told["config_groups"].values()
    assert group["targets"] == ["Linear"]
    bits = {"int8": (8, "int"), "int4": (4, "int"), "fp8": (8, "float")}[name]
    assert (group["weights"]["num_bits"], group["weights"]["type"]) == bits


def test_asked_again_it_does_nothing_and_made_again_it_is_the_same(tmp_path: Path) -> None:
    source = model(tmp_path / "plain")
    assert write_variant(source, tmp_path / "one", INT8)
    before = (tmp_path / "one/config.json").stat()
    assert not write_variant(source, tmp_path / "one", INT8)
    assert (tmp_path / "one/config.json").stat() == before
    assert write_variant(source, tmp_path / "two", INT8)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_several_files_get_an_index(tmp_path: Path) -> None:
    source = model(tmp_path / "plain", files=3)
    write_variant(source, tmp_path / "int8", INT8)
    index = json.loads((tmp_path / "int8/model.safetensors.index.json").read_text())
    for file in source.glob("*.safetensors"):
        own = load_file(tmp_path / "int8" / file.name)
        assert {name for name, place in index["weight_map"].items() if place == file.name} == own.keys()
    total = sum(t.nbytes for f in source.glob("*.safetensors") for t in load_file(tmp_path / "int8" / f.name).values())
    assert index["metadata"]["total_size"] == total


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"architectures": ["LlamaForCausalLN"]}, "model", "did you mean 'LlamaForCausalLM'?"),
        ({"architectures": ["GPT2LMHeadModel"]}, "model", "GPT2LMHeadModel"),
        ({"quantization_config": {"quant_method": "gptq"}}, "model", "quantized already"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(tmp_path: Path, change: dict[str, Any], field: str, says: str) -> None:
    source = model(tmp_path / "plain", **change)
    with pytest.raises(BadVariant) as caught:
        write_variant(source, tmp_path / "int8", INT8)
    assert caught.value.detail["field"] == field
    assert says in caught.value.message
    assert not (tmp_path / "int8").exists()


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(BadVariant, match=r"int7.*did you mean 'int8'") as caught:
        format_named("int7")
    assert caught.value.detail["field"] == "format"


def test_inputs_that_the_groups_do_not_divide_leave_nothing_behind(tmp_path: Path) -> None:
    source = model(tmp_path / "plain")
    odd = load_file(source / "model-00001.safetensors")
    odd[f"{LAYER}.mlp.down_proj.weight"] = torch.ones(128, 200)
    save_file(odd, source / "model-00001.safetensors")
    with pytest.raises(BadVariant, match=r"down_proj.weight has 200 inputs.*128"):
        write_variant(source, tmp_path / "int4", format_named("int4"))
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    source = model(tmp_path / "plain")
    write_variant(source, tmp_path / "int8", INT8)
    before = contents(tmp_path / "int8")
    with pytest.raises(BadVariant) as caught:
        write_variant(source, tmp_path / "int8", format_named("fp8"))
    assert caught.value.detail["field"] == "out"
    assert contents(tmp_path / "int8") == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").write_text("mine")
    with pytest.raises(BadVariant):
        write_variant(source, tmp_path / "other", INT8)
    assert contents(tmp_path / "other") == {"notes.txt": b"mine"}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(model(tmp_path / "plain")), str(tmp_path / "int8"), "--format", "int8"]
    assert (main(words), main(words)) == (0, 0)
    assert (tmp_path / "int8" / MADE).exists()
    assert main([*words[:-1], "int9"]) == 2
    said = capsys.readouterr()
    assert "int8 written" in said.out and "is there already" in said.out and "'int9'" in said.err
