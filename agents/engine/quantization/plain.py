"""Layers whose weights keep the model's dtype.

Guarantee (bfloat16 with the native kernel; float32 with one thread): a row's result does not depend on how many other
rows are computed beside it. That is what makes greedy text independent of batch-mates:
- the native bfloat16 kernel adds in one order for any row count (linear_bfloat16.cpp); it reads weights faster than
  oneDNN's packed product at few rows, which is what decoding is (docs/quantization.md has the figures);
- oneDNN's packed product in float32 gives each row the same bits for any row count, except for a single row against a
  long inner dimension, which is computed as two rows;
- the BLAS behind `F.linear` (used where oneDNN is missing) uses other kernels below four rows, so rows are padded.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from agents.engine.kernels import linear_native
from agents.engine.quantization.tiles import padded, tiled
from controlplane.contract.knobs import Quantization

_LONG_INNER_DIMENSION = 1024
_LEAST_BLAS_ROWS = 4
_EXPECTED_ROWS = 16


def blas_product(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear` with few rows padded."""
    count = rows.shape[0]
    if count < _LEAST_BLAS_ROWS:
        return F.linear(F.pad(rows, (0, 0, 0, _LEAST_BLAS_ROWS - count)), weight, bias)[:count]
    return F.linear(rows, weight, bias)


class NativeBfloat16Linear:
    """bfloat16 weights, float32 sums, bfloat16 results."""

    quantization = Quantization.NONE

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._outputs, self._odd = weight.shape[0], weight.shape[1] % 2
        self._weight = tiled(padded(weight.to(torch.bfloat16), 2), 2)
        self._bias = None if bias is None else bias.float()

    def __call__(self, rows: Tensor) -> Tensor:
        if self._odd:
            rows = F.pad(rows, (0, 1))
        return linear_native.product("bfloat16", rows, self._outputs, self._weight, self._bias)


class PackedLinear:
    """Packed once by oneDNN."""

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
    """By `F.linear`: where oneDNN is missing, and on other devices than the CPU."""

    quantization = Quantization.NONE

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, rows: Tensor) -> Tensor:
        return blas_product(rows, self._weight, self._bias)
