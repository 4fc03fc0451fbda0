"""Model folders in Hugging Face layout; each file is replaced atomically, so that a reader finds whole ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save
from tokenizers import Tokenizer

from agents.models.training import vocabulary
from agents.models.training.trained_decoder import Decoder, Shape

TRAINING_RECORD = "training.json"
_WEIGHTS = "model.safetensors"


def write(folder: Path, model: Decoder, tokenizer: Tokenizer, record: dict[str, Any]) -> None:
    """Writes config, tokenizer, weights (float32) and the training record."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in vocabulary.files(tokenizer, model.shape.max_position_embeddings).items():
        _replace(folder / name, content)
    generation = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "do_sample": False}
    write_json(folder / "config.json", model.shape.config())
    write_json(folder / "generation_config.json", generation)
    weights = {name: tensor.detach().float().contiguous() for name, tensor in model.state_dict().items()}
    _replace(folder / _WEIGHTS, save(weights, metadata={"format": "pt"}))
    write_json(folder / TRAINING_RECORD, record)


def read(folder: Path) -> tuple[Decoder, Tokenizer]:
    """The model and tokenizer of a folder that `write` wrote."""
    config = read_json(folder / "config.json")
    model = Decoder(Shape(**{name: config[name] for name in Shape.__dataclass_fields__}))
    model.load_state_dict(load_file(folder / _WEIGHTS))
    return model, Tokenizer.from_file(str(folder / "tokenizer.json"))


def read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    _replace(path, (json.dumps(content, indent=2) + "\n").encode())


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    os.replace(partial, path)
