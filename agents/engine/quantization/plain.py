"""Layers whose weights keep the model's dtype: the ways to compute them, each with one packed form of the weight.

Guarantee: a way of our own, and `SingleRows`, give a row the same bits whatever rows are beside it, by construction:
- `Amx`, `Bfloat16` and `Wide` add in one order for any row count (linear_amx.cpp, linear_bfloat16.cpp,
  linear_float.cpp);
- `SingleRows` computes each row by a product of one row.
`Packed` and `Blas` are other people's libraries, which take other kernels by the number of rows: they promise nothing.
Their rows are padded to at least `least`, since it is the small numbers that are special; whether a row's bits are its
own then is looked at (row_bits.py) before one of them is taken.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from agents.engine.ops import linear_native
from agents.engine.quantization.tiles import padded, tiled
from controlplane.contract.knobs import Quantization

_EXPECTED_ROWS = 16
WIDE = {torch.float32: "wide_f32", torch.bfloat16: "wide_bf16", torch.float16: "wide_f16"}
"""The native kernel of every processor, by the dtype of its weights."""


def single_row_products(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`, row by row: slow, and each row's bits are its own whatever BLAS computes it."""
    return torch.cat([F.linear(row.unsqueeze(0), weight, bias) for row in rows])


class PlainLinear:
    """rows (n, in) to (n, out), in the dtype of the rows. kernel: what computes it, as the effective configuration
    says."""

    quantization: ClassVar[Quantization] = Quantization.NONE
    kernel: ClassVar[str]

    def __init__(self, weight: Tensor) -> None:
        self.size = (weight.shape[0], weight.shape[1])
        self.microseconds: Mapping[str, Mapping[str, float]] = {}
        """What the choice of this kernel went by: kernel to number of rows to time; empty: nothing was measured."""

    def __call__(self, rows: Tensor) -> Tensor:
        raise NotImplementedError


class Amx(PlainLinear):
    """The native kernel of AMX: bfloat16 products, float32 sums."""

    kernel = "native (tdpbf16ps)"

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight)
        self._weight = tiled(padded(weight.to(torch.bfloat16), linear_native.AMX_INPUTS), 2)
        self._bias = None if bias is None else bias.float()

    def __call__(self, rows: Tensor) -> Tensor:
        return linear_native.product("amx", rows, self.size[0], self._weight, self._bias)


class Bfloat16(PlainLinear):
    """The native kernel of AVX512-BF16: bfloat16 products, float32 sums."""

    kernel = "native (vdpbf16ps)"

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight)
        self._odd = weight.shape[1] % 2
        self._weight = tiled(padded(weight.to(torch.bfloat16), 2), 2)
        self._bias = None if bias is None else bias.float()

    def __call__(self, rows: Tensor) -> Tensor:
        if self._odd:
            rows = F.pad(rows, (0, 1))
        return linear_native.product("bfloat16", rows, self.size[0], self._weight, self._bias)


class Wide(PlainLinear):
    """The native kernel of every processor: weights as they are, float32 products and sums."""

    kernel = "native (float32 sums)"

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight)
        self._name = WIDE[weight.dtype]
        self._weight = tiled(padded(weight, 1), 1)
        self._bias = None if bias is None else bias.float()

    def __call__(self, rows: Tensor) -> Tensor:
        return linear_native.product(self._name, rows, self.size[0], self._weight, self._bias)


class _AtLeast(PlainLinear):
    """Computes no fewer than `least` rows at once."""

    def __init__(self, weight: Tensor, least: int) -> None:
        super().__init__(weight)
        self.least = least

    def __call__(self, rows: Tensor) -> Tensor:
        count = rows.shape[0]
        if count < self.least:
            return self._product(F.pad(rows, (0, 0, 0, self.least - count)))[:count]
        return self._product(rows)

    def _product(self, rows: Tensor) -> Tensor:
        raise NotImplementedError


class Packed(_AtLeast):
    """Packed once by oneDNN."""

    kernel = "oneDNN, packed"

    def __init__(self, weight: Tensor, bias: Tensor | None, least: int = 1) -> None:
        super().__init__(weight, least)
        self._bias = bias
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _EXPECTED_ROWS)

    def _product(self, rows: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._weight, self._bias, "none", [], "")
        return out


class Blas(_AtLeast):
    """By `F.linear`; the weight stays as it is."""

    kernel = "F.linear"

    def __init__(self, weight: Tensor, bias: Tensor | None, least: int = 1) -> None:
        super().__init__(weight, least)
        self._weight, self._bias = weight, bias

    def _product(self, rows: Tensor) -> Tensor:
        return F.linear(rows, self._weight, self._bias)


class SingleRows(PlainLinear):
    """By `F.linear`, row by row."""

    kernel = "F.linear, row by row"

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight)
        self._weight, self._bias = weight, bias

    def __call__(self, rows: Tensor) -> Tensor:
        return single_row_products(rows, self._weight, self._bias)
