"""Tensors of a model folder: one safetensors file, or several behind an index.

Guarantee: a tensor is read when it is asked for, out of a file mapped into memory, so that loading never holds the
whole checkpoint twice; one that is missing, of another shape or no float is refused by its name.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from controlplane.contract.errors import BadRequest

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

_FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class WeightFolder:
    """The named tensors of a Hugging Face folder, given out on one device.

    Names are those of a text model (`model.layers.0...`, `lm_head.weight`), also where the text model is a part of a
    multimodal one.
    """

    def __init__(self, model_dir: Path, device: torch.device | None = None) -> None:
        self._dir, self._device = model_dir, device or torch.device("cpu")
        self._open: dict[str, Any] = {}
        if (model_dir / INDEX_FILE).is_file():
            index = json.loads((model_dir / INDEX_FILE).read_text(encoding="utf-8"))
            file_of: dict[str, str] = index["weight_map"]
        elif (model_dir / SINGLE_FILE).is_file():
            file_of = dict.fromkeys(self._file(SINGLE_FILE).keys(), SINGLE_FILE)
        else:
            raise BadRequest(f"model folder {model_dir}: neither {SINGLE_FILE} nor {INDEX_FILE}", field="model")
        self._stored = {_text_name(name): (name, file) for name, file in file_of.items()}

    def read(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        """One tensor in `dtype`. Raises `BadRequest` when the folder lacks it or has it in another shape."""
        if name not in self._stored:
            raise self._bad(f"the weights lack {name}")
        stored, file = self._stored[name]
        try:
            tensor: torch.Tensor = self._file(file).get_tensor(stored)
        except SafetensorError as error:
            raise self._bad(f"{file} lacks {stored} ({error})") from error
        if tuple(tensor.shape) != shape:
            raise self._bad(f"{stored} has the shape {tuple(tensor.shape)}, but config.json says {shape}")
        if tensor.dtype not in _FLOATS:
            raise self._bad(f"{stored} is {tensor.dtype}; this engine wants float weights and quantizes them itself")
        return tensor.to(self._device, dtype)

    def read_stacked(self, shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype) -> torch.Tensor:
        """Several tensors joined along their rows, so that one product serves them all."""
        return torch.cat([self.read(name, dtype, shape) for name, shape in shapes.items()])

    def _file(self, name: str) -> Any:
        if name not in self._open:
            if not (self._dir / name).is_file():
                raise self._bad(f"{INDEX_FILE} names {name}, which is not there")
            try:
                self._open[name] = safe_open(self._dir / name, framework="pt")
            except SafetensorError as error:
                raise self._bad(f"{name} is no safetensors file ({error})") from error
        return self._open[name]

    def _bad(self, what: str) -> BadRequest:
        return BadRequest(f"model folder {self._dir}: {what}", field="model")


def _text_name(name: str) -> str:
    """`language_model.model.x` (the older form) and `model.language_model.x` are a text model's `model.x`."""
    if name.startswith("model.language_model."):
        return "model." + name.removeprefix("model.language_model.")
    return name.removeprefix("language_model.")
