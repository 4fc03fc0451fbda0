"""fp8 weights (e4m3, a scale per output) and bfloat16 activations (W8A16).

The CPU has no fp8 arithmetic: the native kernel widens weights to bfloat16 in registers, so that memory traffic halves
and nothing else does; the torch twin widens them all on each call, which is slow and said so.
"""

import torch
from torch import Tensor

from agents.engine.ops import linear_native
from agents.engine.quantization.int8 import SLICE
from agents.engine.quantization.plain import single_row_products
from agents.engine.quantization.tiles import padded, tiled_fp8
from controlplane.contract.knobs import Quantization

LARGEST = 448.0
"""The largest e4m3 number."""


def weight_codes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """float8_e4m3fn (out, in) and float32 scales (out,); a zero output stays zero."""
    largest = weight.abs().amax(dim=1).float()
    inverse = torch.where(largest > 0, LARGEST / largest, 0.0)
    codes = torch.empty(weight.shape, dtype=torch.float8_e4m3fn, device=weight.device)
    for start in range(0, weight.shape[0], SLICE):
        own = slice(start, start + SLICE)
        codes[own] = (weight[own].float() * inverse[own, None]).clamp_(-LARGEST, LARGEST).to(codes.dtype)
    return codes, largest / LARGEST


class Fp8Linear:
    """The native kernel."""

    quantization = Quantization.FP8

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        codes, self._scales = weight_codes(weight)
        self._outputs, self._odd = weight.shape[0], weight.shape[1] % 2
        self._weight = tiled_fp8(padded(codes.view(torch.uint8), 2))
        self._bias = None if bias is None else bias.float()

    def __call__(self, rows: Tensor) -> Tensor:
        if self._odd:
            rows = torch.nn.functional.pad(rows, (0, 1))
        return linear_native.product("fp8", rows, self._outputs, self._weight, self._scales, self._bias)


class TorchFp8Linear:
    """The same by torch operations, on any device: weights are widened on each call."""

    quantization = Quantization.FP8

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._codes, self._scales = weight_codes(weight)
        self._bias = None if bias is None else bias.float()

    def __call__(self, rows: Tensor) -> Tensor:
        out = single_row_products(rows.to(torch.bfloat16).float(), self._codes.float()) * self._scales
        return (out if self._bias is None else out + self._bias).to(rows.dtype)
