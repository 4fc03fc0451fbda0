"""Loads a decoder in a weight format; for int4, calibrates it first or finds what an earlier calibration found.

Guarantee: equal weights, dtype and method give equal codes; they are kept in a folder for this user's caches under a
name that is a hash of all three, so that a changed model is calibrated anew. A model folder without a tokenizer cannot
be calibrated: its weights are rounded one by one, which is logged.
"""

import hashlib
import logging
import os
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from agents.engine.loading.passage import encode, logits
from agents.engine.loading.texts import calibration_texts
from agents.engine.model.config import ModelConfig
from agents.engine.model.decoder import Decoder
from agents.engine.ops.ops import Ops
from agents.engine.quantization.int4 import Int4Codes
from agents.engine.quantization.linear import Linear, LinearBuilder
from agents.engine.text.tokenizer import TextCodec
from agents.host.user_cache import user_cache
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import Quantization

CACHE_VARIABLE = "TAILWRIGHT_QUANTIZED_CACHE"
METHOD = "gptq-1"
"""Changes when other codes would be found."""
_TOKENS_EACH = 512

_log = logging.getLogger(__name__)


def load_decoder(
    model_dir: Path,
    config: ModelConfig,
    quantization: Quantization,
    dtype: torch.dtype,
    ops: Ops | None = None,
    device: torch.device | None = None,
    max_positions: int | None = None,
    kernels: str = "auto",
) -> Decoder:
    """`Decoder.load` with calibrated weights. kernels: auto, native or torch."""
    rest: dict[str, Any] = {"ops": ops, "device": device, "max_positions": max_positions}
    if quantization is not Quantization.INT4:
        return Decoder.load(
            model_dir, config, quantization, dtype, **rest, linears=LinearBuilder(quantization, kernels)
        )
    kept = _cache_file(model_dir, dtype)
    if kept.is_file():
        builder = LinearBuilder(quantization, kernels, codes=_read_codes(kept))
        return Decoder.load(model_dir, config, quantization, dtype, **rest, linears=builder)
    grams = calibrate(model_dir, config, dtype, kernels, rest)
    builder = LinearBuilder(quantization, kernels, grams)
    decoder = Decoder.load(model_dir, config, quantization, dtype, **rest, linears=builder)
    if grams:
        _write_codes(kept, builder.codes)
    return decoder


class _Recorder:
    """A layer that adds up X^T X of its inputs."""

    def __init__(self, layer: Linear, gram: Tensor) -> None:
        self.quantization = layer.quantization
        self._layer, self._gram = layer, gram

    def __call__(self, rows: Tensor) -> Tensor:
        own = rows.float()
        self._gram.addmm_(own.T, own)
        return self._layer(rows)


class _RecordingBuilder(LinearBuilder):
    """Plain layers that record."""

    def __init__(self, kernels: str) -> None:
        super().__init__(Quantization.NONE, kernels)
        self.grams: dict[str, Tensor] = {}

    def body(self, name: str, weight: Tensor, bias: Tensor | None) -> Linear:
        self.grams[name] = torch.zeros(weight.shape[1], weight.shape[1], device=weight.device)
        return _Recorder(super().body(name, weight, bias), self.grams[name])


def calibrate(
    model_dir: Path, config: ModelConfig, dtype: torch.dtype, kernels: str, rest: dict[str, Any]
) -> dict[str, Tensor]:
    """X^T X of each layer's inputs over the calibration texts; empty where the folder has no tokenizer."""
    began = time.monotonic()
    try:
        codec = TextCodec(model_dir)
    except BadRequest as error:
        _log.warning("int4 weights are rounded without calibration: %s", error.message)
        return {}
    builder = _RecordingBuilder(kernels)
    decoder = Decoder.load(model_dir, config, Quantization.NONE, dtype, **rest, linears=builder)
    for tokens in encode(codec, decoder, calibration_texts(), _TOKENS_EACH):
        logits(decoder, tokens)
    _log.info("calibrated %d layers in %.1f s", len(builder.grams), time.monotonic() - began)
    return builder.grams


def _cache_file(model_dir: Path, dtype: torch.dtype) -> Path:
    digest = hashlib.blake2b(f"{METHOD} {dtype}".encode(), digest_size=12)
    for path in sorted(model_dir.glob("*.safetensors")):
        with path.open("rb") as opened:
            while chunk := opened.read(2**24):
                digest.update(chunk)
    return user_cache(CACHE_VARIABLE, "quantized") / f"{digest.hexdigest()}.safetensors"


def _read_codes(path: Path) -> dict[str, Int4Codes]:
    tensors = load_file(path)
    names = [name.removesuffix(".codes") for name in tensors if name.endswith(".codes")]
    return {
        name: Int4Codes(tensors[f"{name}.codes"], tensors[f"{name}.scales"], tensors[f"{name}.offsets"])
        for name in names
    }


def _write_codes(path: Path, codes: dict[str, Int4Codes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"{name}.{part}": getattr(own, part).contiguous()
        for name, own in codes.items()
        for part in ("codes", "scales", "offsets")
    }
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    save_file(tensors, scratch)
    scratch.replace(path)
