"""The linear layers, by weight format: which class computes which format where.

Guarantee (CPU): a row's result does not depend on how many other rows are computed beside it, in every format; see
plain_choice.py for how that is held for unquantized weights. Embeddings and norms keep their format. The head is the
largest layer of a small model: it is int8 for int8 and int4 (4 bits would cost it too much quality), fp8 for fp8.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from agents.engine.quantization import cuda, native_choice, plain_choice
from agents.engine.quantization.fp8 import Fp8Linear, TorchFp8Linear
from agents.engine.quantization.gptq import feedback_codes
from agents.engine.quantization.int4 import Int4Codes, Int4Linear, TorchInt4Linear, round_codes
from agents.engine.quantization.int8 import Int8Linear, TorchInt8Linear
from agents.engine.quantization.plain import Blas
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import QUANTIZATION, Quantization

LEAST_ROWS_ELSEWHERE = 4
"""A GPU's library takes matrix by vector kernels below. A step has as many, so that no layer pads its own."""
_KERNEL_OF = {Quantization.INT8: "int8", Quantization.INT4: "int4", Quantization.FP8: "fp8"}


def check_permitted(quantization: Quantization, permitted: Sequence[str], field: str = QUANTIZATION) -> None:
    """Raises `KnobOutOfRange` for a weight format that this engine was not started to run."""
    if quantization not in permitted:
        raise KnobOutOfRange(
            f"{field}: {quantization.value} weights are not permitted on this engine; choose one of "
            f"{', '.join(permitted)}, or start it with other --quantizations",
            field=field,
            choices=list(permitted),
        )


class Linear(Protocol):
    """rows (n, in) to rows (n, out), in the dtype of the input."""

    @property
    def quantization(self) -> Quantization: ...

    def __call__(self, rows: Tensor) -> Tensor: ...


class LinearBuilder:
    """Builds a model's layers in one format. grams: a layer's name to X^T X of its inputs, for int4; codes: a layer's
    name to codes found before; a layer that neither has is rounded without calibration."""

    def __init__(
        self,
        quantization: Quantization = Quantization.NONE,
        kernels: str = "auto",
        grams: Mapping[str, Tensor] | None = None,
        codes: Mapping[str, Int4Codes] | None = None,
    ) -> None:
        self.quantization, self._kernels = quantization, kernels
        self._grams = grams or {}
        self.codes: dict[str, Int4Codes] = dict(codes or {})
        """Of the int4 layers built so far."""

    def body(self, name: str, weight: Tensor, bias: Tensor | None) -> Linear:
        """A layer between embedding and head. weight: (out, in)."""
        if self.quantization is Quantization.INT4 and name not in self.codes and name in self._grams:
            self.codes[name] = feedback_codes(weight, self._grams[name])
        elif self.quantization is Quantization.INT4 and name not in self.codes:
            self.codes[name] = round_codes(weight)
        return build_linear(weight, bias, self.quantization, self._kernels, self.codes.get(name))

    def head(self, weight: Tensor) -> Linear:
        """The output layer. weight: (vocabulary, in)."""
        format_ = Quantization.INT8 if self.quantization is Quantization.INT4 else self.quantization
        return build_linear(weight, None, format_, self._kernels)


def build_linear(
    weight: Tensor,
    bias: Tensor | None,
    quantization: Quantization = Quantization.NONE,
    kernels: str = "auto",
    codes: Int4Codes | None = None,
) -> Linear:
    """A layer of the wanted format. weight: (out, in); kernels: auto, native or torch; codes: int4's to use."""
    if weight.device.type == "cuda" and quantization is not Quantization.NONE:
        return cuda.build(weight, bias, quantization, codes)
    if quantization is Quantization.NONE:
        if weight.device.type != "cpu":
            return Blas(weight, bias, LEAST_ROWS_ELSEWHERE)
        return plain_choice.build(weight, bias, kernels)
    native = weight.device.type == "cpu" and native_choice.choose(_KERNEL_OF[quantization], kernels).native
    if quantization is Quantization.INT8:
        return Int8Linear(weight, bias) if native else TorchInt8Linear(weight, bias)
    if quantization is Quantization.FP8:
        return Fp8Linear(weight, bias) if native else TorchFp8Linear(weight, bias)
    codes = codes or round_codes(weight)
    return Int4Linear(codes, bias) if native else TorchInt4Linear(codes, bias)


def describe(device: torch.device, dtype: torch.dtype, kernels: str = "auto") -> dict[str, str]:
    """Format to how this device runs it, for the effective configuration."""
    if device.type == "cuda":
        return cuda.describe(dtype)
    ways = ", ".join(candidate.name for candidate in plain_choice.candidates(dtype, kernels))
    found = {Quantization.NONE.value: f"by layer, the quickest of {ways} in which a row's bits are its own"}
    for format_, what in (
        (Quantization.INT8, "int8 products"),
        (Quantization.INT4, "int8 products, weights unpacked in registers, int8 head"),
        (Quantization.FP8, "emulated: widened to bfloat16 in registers"),
    ):
        choice = native_choice.choose(_KERNEL_OF[format_], kernels)
        found[format_.value] = f"{choice.report}: {what}" if choice.native else f"emulated in {choice.report}"
    return found
