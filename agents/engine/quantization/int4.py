"""4-bit weights in groups of 32 inputs (value = code * scale + offset) and int8 activations (W4A8).

Scales and offsets are bfloat16: five bits a weight in all. `round_codes` finds each group's range by search; what takes
the error of one weight into account when the next is rounded is in gptq.py. Guarantees as in int8.py.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from agents.engine.ops import linear_native
from agents.engine.quantization.activations import quantize_rows
from agents.engine.quantization.tiles import TILE, padded, tiled_groups, tiled_nibbles
from controlplane.contract.knobs import Quantization

GROUP = 32
MOST = 15
_SHRINKS = tuple(1.0 - 0.04 * step for step in range(8))


@dataclass(frozen=True)
class Int4Codes:
    """codes (out, in padded to groups) uint8; scales and offsets (out, groups) float32 that bfloat16 holds exactly."""

    codes: Tensor
    scales: Tensor
    offsets: Tensor

    def values(self) -> Tensor:
        """The weights that the codes stand for, (out, padded in) float32."""
        outputs = self.codes.shape[0]
        grouped = self.codes.view(outputs, -1, GROUP).float()
        return (grouped * self.scales[..., None] + self.offsets[..., None]).view(outputs, -1)


def search_range(grouped: Tensor, importance: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scale and offset for weights (..., group): the shrunken range of least squared error.

    importance: (..., group) weights of the squares, the second moments of the inputs; None: all equal.
    """
    low, high = grouped.amin(dim=-1), grouped.amax(dim=-1)
    best: tuple[Tensor, Tensor, Tensor] | None = None
    for shrink in _SHRINKS:
        scale = ((high - low) * shrink / MOST).to(torch.bfloat16).float()
        offset = (low + (high - low) * (1 - shrink) / 2).to(torch.bfloat16).float()
        codes = nearest_codes(grouped, scale[..., None], offset[..., None])
        errors = (codes * scale[..., None] + offset[..., None] - grouped).square()
        error = (errors if importance is None else errors * importance).sum(dim=-1)
        if best is None:
            best = error, scale, offset
        else:
            better = error < best[0]
            kept = zip((error, scale, offset), best, strict=True)
            error, scale, offset = (torch.where(better, new, old) for new, old in kept)
            best = error, scale, offset
    assert best is not None
    return best[1], best[2]


def nearest_codes(values: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    """Codes 0 to 15 as float32; where the scale is zero all values equal the offset, and the code is zero."""
    return torch.where(scale > 0, (values - offset) / scale, 0.0).round_().clamp_(0, MOST)


def round_codes(weight: Tensor) -> Int4Codes:
    """Each weight rounded by itself, in the best range of its group. weight: (out, in)."""
    outputs, inputs = weight.shape
    grouped = F.pad(weight.float(), (0, -inputs % GROUP)).view(outputs, -1, GROUP)
    scales, offsets = search_range(grouped)
    codes = nearest_codes(grouped, scales[..., None], offsets[..., None])
    return Int4Codes(codes.to(torch.uint8).view(outputs, -1), scales, offsets)


class Int4Linear:
    """The native kernel."""

    quantization = Quantization.INT4

    def __init__(self, codes: Int4Codes, bias: Tensor | None) -> None:
        self._outputs = codes.codes.shape[0]
        spare = (0, 0, 0, -self._outputs % TILE)
        self._weight = tiled_nibbles(padded(codes.codes, GROUP))
        self._scales = tiled_groups(F.pad(codes.scales, spare))
        self._offsets = tiled_groups(F.pad(codes.offsets, spare))
        self._bias = None if bias is None else bias.float()

    def __call__(self, rows: Tensor) -> Tensor:
        rest = (GROUP, self._scales, self._offsets, self._bias)
        return linear_native.product("int4", rows, self._outputs, self._weight, *rest)


class TorchInt4Linear:
    """The same product by torch operations, on any device."""

    quantization = Quantization.INT4

    def __init__(self, codes: Int4Codes, bias: Tensor | None) -> None:
        self._codes = codes
        self._bias = None if bias is None else bias.float()

    def __call__(self, rows: Tensor) -> Tensor:
        codes, scales, sums = quantize_rows(rows, GROUP)
        out = torch.zeros((rows.shape[0], self._codes.codes.shape[0]), device=rows.device)
        for group in range(codes.shape[1]):
            own = self._codes.codes[:, group * GROUP : (group + 1) * GROUP].float()
            offset = self._codes.offsets[:, group] * sums[:, group, None]
            share = (codes[:, group].float() @ own.T) * self._codes.scales[:, group] + offset
            out = torch.addcmul(out, share, scales[:, group, None])
        return (out if self._bias is None else out + self._bias).to(rows.dtype)
