"""Int8 weights and int8 activations (W8A8): a scale per output, and one per row and group of 64 inputs.

Guarantee: a row's result is its own (see linear_int.cpp). The sums within a group are exact; groups are added in
float32. The torch twin computes the same; it is the kernel's reference, and slow.
"""

import torch
from torch import Tensor

from agents.engine.ops import linear_native
from agents.engine.quantization.activations import quantize_rows
from agents.engine.quantization.tiles import padded, tiled
from controlplane.contract.knobs import Quantization

GROUP = 64
"""Inputs per activation scale. Sums of 64 products stay below 2^24, so that float32 holds them exactly in the twin."""
SLICE = 4096
"""Outputs whose codes are found at once."""


def weight_codes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """int8 codes (out, in) and float32 scales (out,), symmetric; a zero output has codes of zero."""
    largest = weight.abs().amax(dim=1).float()
    scales = largest / 127.0
    inverse = torch.where(largest > 0, 127.0 / largest, 0.0)
    codes = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    # Piece by piece: a head in float32 at once would take more memory than the model.
    for start in range(0, weight.shape[0], SLICE):
        own = slice(start, start + SLICE)
        codes[own] = (weight[own].float() * inverse[own, None]).round_().clamp_(-127, 127)
    return codes, scales


class Int8Linear:
    """The native kernel."""

    quantization = Quantization.INT8

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        codes, self._scales = weight_codes(weight)
        self._outputs = weight.shape[0]
        # Unsigned, as vpdpbusd wants its first factor; what pads inputs meets activations of zero.
        self._weight = tiled(padded(codes, GROUP).view(torch.uint8) ^ 128, 4)
        self._bias = None if bias is None else bias.float()

    def __call__(self, rows: Tensor) -> Tensor:
        return linear_native.product("int8", rows, self._outputs, self._weight, GROUP, self._scales, self._bias)


class TorchInt8Linear:
    """The same product by torch operations, on any device."""

    quantization = Quantization.INT8

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        codes, self._scales = weight_codes(weight)
        self._outputs = weight.shape[0]
        self._codes = padded(codes, GROUP)[: self._outputs]
        self._bias = None if bias is None else bias.float()

    def __call__(self, rows: Tensor) -> Tensor:
        codes, scales, _ = quantize_rows(rows, GROUP)
        out = torch.zeros((rows.shape[0], self._outputs), device=rows.device)
        for group in range(codes.shape[1]):
            own = self._codes[:, group * GROUP : (group + 1) * GROUP].float()
            out = torch.addcmul(out, codes[:, group].float() @ own.T, scales[:, group, None])
        out = out * self._scales
        return (out if self._bias is None else out + self._bias).to(rows.dtype)
