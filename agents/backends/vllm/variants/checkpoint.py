"""Writes a variant of a Hugging Face checkpoint folder.

Guarantees: the output folder appears whole or not at all; the same source and format make the same bytes, and asking
again for what is there does nothing; a folder with anything else in it is never written to. One file of weights is in
memory at a time.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from agents.backends.vllm.variants.formats import BadVariant, Format
from controlplane.contract.errors import nearest

ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Gemma3ForCausalLM",
)
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The linear layers of a decoder layer in all of these; the rest is not quantized."""
MADE = "tailwright_variant.json"
"""Says what the folder was made of."""
_WRITER = 1
"""Raised when what is written changes for the same source and format."""
_INDEX = "model.safetensors.index.json"
_TAKEN_OVER = (
    "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "merges.txt", "chat_template.json", "chat_template.jinja",
)  # fmt: skip


def write_variant(model_dir: Path, out_dir: Path, chosen: Format) -> bool:
    """Write it. False: it was there already. Raises `BadVariant`."""
    config = _read_config(model_dir)
    files = sorted(model_dir.glob("*.safetensors"))
    if not files:
        raise BadVariant(f"model: {model_dir} holds no *.safetensors", field="model")
    made = {"format": chosen.name, "writer": _WRITER, "source": _fingerprint([model_dir / "config.json", *files])}
    if out_dir.exists() and (not out_dir.is_dir() or any(out_dir.iterdir())):
        if _read_made(out_dir) == made:
            return False
        raise BadVariant(f"out: {out_dir} holds something else; name a folder that is not there yet", field="out")
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}-", dir=out_dir.parent))
    try:
        _fill(scratch, model_dir, files, config, chosen)
        (scratch / MADE).write_text(json.dumps(made, indent=2) + "\n")
        scratch.chmod(0o755)
        os.replace(scratch, out_dir)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return True


def _fill(folder: Path, model_dir: Path, files: list[Path], config: dict[str, Any], chosen: Format) -> None:
    places: dict[str, str] = {}
    size = quantized = 0
    for file in files:
        tensors = dict(_encoded(file, chosen))
        quantized += sum(name.endswith(".weight_scale") for name in tensors)
        save_file(tensors, folder / file.name, metadata={"format": "pt"})
        (folder / file.name).chmod(0o644)  # It comes out readable by its owner alone.
        places.update(dict.fromkeys(tensors, file.name))
        size += sum(tensor.nbytes for tensor in tensors.values())
    if not quantized:
        raise BadVariant(f"model: none of its layers is called {', '.join(PROJECTIONS)}", field="model")
    if len(files) > 1:
        index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(places.items()))}
        (folder / _INDEX).write_text(json.dumps(index, indent=2) + "\n")
    told = {**config, "quantization_config": chosen.quantization_config()}
    (folder / "config.json").write_text(json.dumps(told, indent=2) + "\n")
    for name in _TAKEN_OVER:
        if (model_dir / name).exists():
            shutil.copyfile(model_dir / name, folder / name)


def _encoded(file: Path, chosen: Format) -> Iterator[tuple[str, Tensor]]:
    with safe_open(str(file), "pt") as opened:
        for name in opened.keys():  # noqa: SIM118 - no dictionary.
            tensor = opened.get_tensor(name)
            layer, _, kind = name.rpartition(".")
            if kind != "weight" or layer.rpartition(".")[2] not in PROJECTIONS:
                yield name, tensor
                continue
            if tensor.shape[1] % chosen.inputs_by:
                raise BadVariant(
                    f"format: {name} has {tensor.shape[1]} inputs, {chosen.name} wants a multiple of "
                    f"{chosen.inputs_by}; choose another format",
                    field="format",
                )
            for part, content in chosen.encode(tensor).items():
                yield f"{layer}.{part}", content.contiguous()


def _read_config(model_dir: Path) -> dict[str, Any]:
    try:
        config = json.loads((model_dir / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise BadVariant(f"model: {model_dir}/config.json cannot be read: {error}", field="model") from error
    if not isinstance(config, dict):
        raise BadVariant(f"model: {model_dir}/config.json is not an object", field="model")
    found = [str(name) for name in config.get("architectures") or ["none"]]
    if unknown := [name for name in found if name not in ARCHITECTURES]:
        near = nearest(unknown[0], list(ARCHITECTURES))
        raise BadVariant(f"model: no variants are made of {unknown[0]}, {near}", field="model")
    if "quantization_config" in config:
        raise BadVariant(f"model: {model_dir} is quantized already; start from the plain weights", field="model")
    return config


def _read_made(folder: Path) -> object:
    try:
        return json.loads((folder / MADE).read_bytes())
    except (OSError, ValueError):
        return None


def _fingerprint(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
