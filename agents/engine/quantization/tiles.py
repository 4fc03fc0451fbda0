"""Weights in the order in which the native kernels read them: tiles of 64 outputs, going through the inputs.

Outputs are padded with zeros to whole tiles, inputs to whole groups.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

TILE = 64


def padded(weight: Tensor, multiple: int) -> Tensor:
    """(out, in) with `in` padded to a multiple and `out` to whole tiles, by zeros."""
    outputs, inputs = weight.shape
    return F.pad(weight, (0, -inputs % multiple, 0, -outputs % TILE))


def tiled(weight: Tensor, inputs_at_once: int) -> Tensor:
    """(out, in), both whole, to (tiles, in / inputs_at_once, 64, inputs_at_once)."""
    if weight.element_size() < 4 and inputs_at_once * weight.element_size() == 4:
        # Elements of four bytes are transposed many times faster than such of one or two.
        return tiled(weight.view(torch.int32), 1).view(weight.dtype)
    outputs, inputs = weight.shape
    shape = (outputs // TILE, TILE, inputs // inputs_at_once, inputs_at_once)
    return weight.view(shape).transpose(1, 2).contiguous()


def tiled_nibbles(codes: Tensor) -> Tensor:
    """4-bit codes (out, in) as uint8, to (tiles, in / 4, 2, 64) bytes: see linear_int.cpp."""
    quads = tiled(codes, 4)
    tiles, steps = quads.shape[:2]
    vectors = quads.view(tiles, steps, 2, 2, TILE)
    return (vectors[:, :, :, 0] | (vectors[:, :, :, 1] << 4)).contiguous()


def tiled_fp8(codes: Tensor) -> Tensor:
    """fp8 codes (out, in) as uint8, in the order that linear_bfloat16.cpp unpacks."""
    pairs = tiled(codes, 2)
    tiles, steps = pairs.shape[:2]
    return pairs.view(tiles, steps, 2, 2, 4, 4, 2).permute(0, 1, 2, 4, 3, 5, 6).contiguous()


def tiled_groups(values: Tensor) -> Tensor:
    """One value per output and group, (out, groups), to bfloat16 (tiles, groups, 64)."""
    outputs, groups = values.shape
    return values.view(outputs // TILE, TILE, groups).transpose(1, 2).contiguous().to(torch.bfloat16)
