"""Activations as int8, one scale per row and group of inputs: the definition that linear_int.cpp computes too.

Groups rather than whole rows, because a few inputs of a transformer are far larger than the rest (Dettmers et al. 2022,
LLM.int8()): one of them would leave the others of its row few of the 255 codes. Rows are quantized by themselves, so
that no request depends on its batch-mates.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

LEAST = 1e-30
"""A group whose largest magnitude is below counts as zero: 127 / largest must stay finite."""


def quantize_rows(rows: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes (n, groups, group) int8, scales (n, groups) float32, sums of the codes (n, groups) int32.

    A group with an infinity or a NaN gets the scale NaN, so that the row's result tells it.
    """
    groups = -(-rows.shape[1] // group)
    values = F.pad(rows.float(), (0, groups * group - rows.shape[1])).view(rows.shape[0], groups, group)
    largest = values.abs().amax(dim=2)
    finite = largest.isfinite()
    alive = finite & (largest >= LEAST)
    # A true quotient, as in C++: torch divides a Python number by a tensor as number times reciprocal, rounding twice.
    inverse = torch.where(alive, torch.full_like(largest, 127.0) / largest, 0.0)
    codes = torch.where(alive.unsqueeze(2), (values * inverse.unsqueeze(2)).round(), 0.0).clamp(-128, 127)
    scales = torch.where(finite, torch.where(alive, largest / 127.0, 0.0), torch.nan)
    return codes.to(torch.int8), scales, codes.sum(dim=2).to(torch.int32)
