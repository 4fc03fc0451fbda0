"""The linear layers, by weight format: which class computes which format where.

Guarantee (CPU): a row's result does not depend on how many other rows are computed beside it, in every format; see
plain.py for what that means for unquantized weights. Embeddings and norms keep their format. The head is the largest
layer of a small model: it is int8 for int8 and int4 (4 bits would cost it too much quality), fp8 for fp8.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from agents.engine.quantization import cuda, native_choice
from agents.engine.quantization.fp8 import Fp8Linear, TorchFp8Linear
from agents.engine.quantization.gptq import feedback_codes
from agents.engine.quantization.int4 import Int4Codes, Int4Linear, TorchInt4Linear, round_codes
from agents.engine.quantization.int8 import Int8Linear, TorchInt8Linear
from agents.engine.quantization.plain import BlasLinear, NativeBfloat16Linear, PackedLinear
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import QUANTIZATION, Quantization

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

    quantization: Quantization

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
            self.codes[name] = feedback_codes(weight.cpu(), self._grams[name])
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
        return cuda.build(weight, bias, quantization, codes or round_codes(weight))
    if quantization is Quantization.NONE:
        return _plain(weight, bias, kernels)
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
        return cuda.describe()
    plain = native_choice.choose("bfloat16", kernels).report if dtype is torch.bfloat16 else "oneDNN or BLAS"
    found = {Quantization.NONE.value: plain}
    for format_, what in (
        (Quantization.INT8, "int8 products"),
        (Quantization.INT4, "int8 products, weights unpacked in registers, int8 head"),
        (Quantization.FP8, "emulated: widened to bfloat16 in registers"),
    ):
        choice = native_choice.choose(_KERNEL_OF[format_], kernels)
        found[format_.value] = f"{choice.report}: {what}" if choice.native else f"emulated in {choice.report}"
    return found


def _plain(weight: Tensor, bias: Tensor | None, kernels: str) -> Linear:
    on_cpu = weight.device.type == "cpu"
    if on_cpu and weight.dtype is torch.bfloat16 and native_choice.choose("bfloat16", kernels).native:
        return NativeBfloat16Linear(weight, bias)
    return PackedLinear(weight, bias) if _packs(weight) else BlasLinear(weight, bias)


def _packs(weight: Tensor) -> bool:
    """Whether oneDNN computes this weight: on the CPU, and half precision only where the processor has it."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if weight.dtype is torch.float16:
        return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    return weight.dtype is not torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
