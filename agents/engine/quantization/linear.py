"""The linear layers: plain ones and int8 weights.

Guarantee (float32, one thread): a row's result does not depend on how many other rows are computed beside it. That is
what makes greedy text independent of batch-mates, and it is why each format uses one kernel for every row count:
- oneDNN's packed product gives each row the same bits for any row count, except for a single row against a long inner
  dimension, which is computed as two rows;
- the BLAS behind `F.linear` (used where oneDNN is missing) uses other kernels below four rows, so rows are padded;
- `_weight_int8pack_mm` works row by row. It is fast only with bfloat16 activations, so int8 layers round them.
Int8 is symmetric, weight only, one scale per output channel; embeddings, norms and the head keep their format.
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import QUANTIZATION, Quantization

SUPPORTED: tuple[Quantization, ...] = (Quantization.NONE, Quantization.INT8)
"""What this engine truly runs."""

_LONG_INNER_DIMENSION = 1024
_LEAST_BLAS_ROWS = 4
_EXPECTED_ROWS = 16


def check_supported(quantization: Quantization, field: str = QUANTIZATION) -> None:
    """Raises `KnobOutOfRange` for a weight format that this engine does not run."""
    if quantization not in SUPPORTED:
        raise KnobOutOfRange(
            f"{field}: {quantization.value} weights are not run by this engine; choose one of "
            f"{', '.join(format_.value for format_ in SUPPORTED)}",
            field=field,
            choices=[format_.value for format_ in SUPPORTED],
        )


class Linear(Protocol):
    """rows (n, in) to rows (n, out), in the dtype of the input."""

    quantization: Quantization

    def __call__(self, rows: Tensor) -> Tensor: ...


class PackedLinear:
    """Plain weights, packed once by oneDNN."""

    quantization = Quantization.NONE

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._bias = bias
        self._twin_single_rows = weight.shape[1] > _LONG_INNER_DIMENSION
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _EXPECTED_ROWS)

    def __call__(self, rows: Tensor) -> Tensor:
        if self._twin_single_rows and rows.shape[0] == 1:
            return self._product(rows.expand(2, -1).contiguous())[:1]
        return self._product(rows)

    def _product(self, rows: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._weight, self._bias, "none", [], "")
        return out


class BlasLinear:
    """Plain weights where oneDNN is missing."""

    quantization = Quantization.NONE

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, rows: Tensor) -> Tensor:
        count = rows.shape[0]
        if count < _LEAST_BLAS_ROWS:
            return F.linear(F.pad(rows, (0, 0, 0, _LEAST_BLAS_ROWS - count)), self._weight, self._bias)[:count]
        return F.linear(rows, self._weight, self._bias)


class Int8Linear:
    """Weights as int8 with one scale per output channel."""

    quantization = Quantization.INT8

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        largest = weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-12)
        # The kernel takes its scales in bfloat16; rounding them first keeps that rounding out of the error.
        scales = (largest.float() / 127.0).to(torch.bfloat16)
        self._codes = torch.round(weight.float() / scales.float()).clamp_(-127, 127).to(torch.int8).contiguous()
        self._scales = scales.flatten()
        self._bias = bias

    def __call__(self, rows: Tensor) -> Tensor:
        out = torch._weight_int8pack_mm(rows.to(torch.bfloat16), self._codes, self._scales).to(rows.dtype)
        return out if self._bias is None else out + self._bias


def build_linear(weight: Tensor, bias: Tensor | None, quantization: Quantization = Quantization.NONE) -> Linear:
    """A layer of the wanted format. weight: (out, in)."""
    if quantization is Quantization.INT8:
        return Int8Linear(weight, bias)
    if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return PackedLinear(weight, bias)
    return BlasLinear(weight, bias)
