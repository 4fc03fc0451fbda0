"""Tensors of a model folder: one safetensors file, or several behind an index.

Guarantee: a tensor is read when it is asked for, so that loading never holds the whole checkpoint twice.
"""

import json
from pathlib import Path

import torch
from safetensors import safe_open

from controlplane.contract.errors import BadRequest

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


class WeightFolder:
    """The named tensors of a Hugging Face folder."""

    def __init__(self, model_dir: Path) -> None:
        self._dir = model_dir
        if (model_dir / INDEX_FILE).is_file():
            index = json.loads((model_dir / INDEX_FILE).read_text(encoding="utf-8"))
            self._file_of: dict[str, str] = index["weight_map"]
        elif (model_dir / SINGLE_FILE).is_file():
            with safe_open(model_dir / SINGLE_FILE, framework="pt") as opened:
                self._file_of = dict.fromkeys(opened.keys(), SINGLE_FILE)
        else:
            raise BadRequest(f"model folder {model_dir}: neither {SINGLE_FILE} nor {INDEX_FILE}", field="model_dir")

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    def read(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """One tensor in `dtype`. Raises `BadRequest` when the folder lacks it."""
        if name not in self._file_of:
            raise BadRequest(f"model folder {self._dir}: the weights lack {name}", field="model_dir")
        with safe_open(self._dir / self._file_of[name], framework="pt") as opened:
            tensor: torch.Tensor = opened.get_tensor(name)
        return tensor.to(dtype)

    def read_stacked(self, names: list[str], dtype: torch.dtype) -> torch.Tensor:
        """Several tensors joined along their rows, so that one product serves them all."""
        return torch.cat([self.read(name, dtype) for name in names])
