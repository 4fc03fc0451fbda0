"""Round-to-nearest codes of one weight (outputs, inputs), as compressed-tensors stores them. Symmetric, scales float32.

Guarantee: code * scale is within half a step of the weight, a step being the scale (int8, int4), or the distance
between two neighbouring fp8 numbers times the scale. An output or group of zeros has codes of zero.
"""

import torch
from torch import Tensor

INT8_LARGEST = 127
INT4_LARGEST = 7
INT4_OFFSET = 8
"""Packed codes are stored without a sign, this much higher."""
CODES_PER_WORD = 8  # 4-bit codes in an int32.
FP8 = torch.float8_e4m3fn
FP8_LARGEST = torch.finfo(FP8).max


def int8(weight: Tensor) -> dict[str, Tensor]:
    """One scale per output."""
    scale = _scales(weight.float(), INT8_LARGEST)
    codes = (weight.float() / scale).round_().clamp_(-INT8_LARGEST, INT8_LARGEST)
    return {"weight": codes.to(torch.int8), "weight_scale": scale}


def fp8(weight: Tensor) -> dict[str, Tensor]:
    """One scale per output."""
    scale = _scales(weight.float(), FP8_LARGEST)
    return {"weight": (weight.float() / scale).clamp_(-FP8_LARGEST, FP8_LARGEST).to(FP8), "weight_scale": scale}


def int4(weight: Tensor, group: int) -> dict[str, Tensor]:
    """One scale per output and `group` inputs, which divide them; eight codes a word, the first in its lowest bits.

    Scales are rounded to the weight's own type before the codes are found: vLLM's kernels take them in the type they
    compute in. Of the layout's -8..7 only -7..7 are used, the same on both sides.
    """
    outputs, inputs = weight.shape
    grouped = weight.float().reshape(outputs, inputs // group, group)
    scale = _scales(grouped, INT4_LARGEST).to(weight.dtype).float()
    codes = (grouped / scale).round_().clamp_(-INT4_LARGEST, INT4_LARGEST).to(torch.int32) + INT4_OFFSET
    words = codes.reshape(outputs, inputs // CODES_PER_WORD, CODES_PER_WORD)
    packed = torch.zeros(words.shape[:2], dtype=torch.int32)
    for place in range(CODES_PER_WORD):
        packed |= words[:, :, place] << (4 * place)
    return {
        "weight_packed": packed,
        "weight_scale": scale[:, :, 0].to(weight.dtype),
        "weight_shape": torch.tensor([outputs, inputs], dtype=torch.int64),
    }


def _scales(weight: Tensor, largest: float) -> Tensor:
    """A scale for each row of the last dimension, kept as a dimension of 1; 1 where all is zero."""
    most = weight.abs().amax(dim=-1, keepdim=True)
    return torch.where(most > 0, most / largest, 1.0)
