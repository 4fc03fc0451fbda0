"""Error feedback: when a weight is rounded, those not yet rounded make up for it (Frantar et al. 2022, GPTQ).

For a layer with inputs X the damage of rounding W to Q is |XW - XQ|^2. Going through the inputs in order, the error of
each column is spread over the later ones along the rows of the Cholesky factor of the inverse of X^T X. A group's range
is found when its first column is reached, weighted by the inputs' second moments.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from agents.engine.quantization.int4 import GROUP, Int4Codes, nearest_codes, search_range

_DAMPING = 0.01
"""Of the mean second moment, added to each: the paper's."""


@torch.inference_mode()
def feedback_codes(weight: Tensor, gram: Tensor) -> Int4Codes:
    """weight: (out, in); gram: X^T X, (in, in) float32 on the same device, of the inputs that the layer saw in a
    calibration text."""
    outputs, inputs = weight.shape
    spare = -inputs % GROUP
    left = F.pad(weight.float(), (0, spare))
    moments = F.pad(gram.float(), (0, spare, 0, spare))
    diagonal = moments.diagonal()
    diagonal += _DAMPING * diagonal.mean() + 1e-12
    importance = diagonal.clone()
    factor = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(moments)), upper=True)
    codes = torch.empty(left.shape, dtype=torch.uint8, device=left.device)
    scales, offsets = torch.empty((2, outputs, left.shape[1] // GROUP), device=left.device)
    for group in range(left.shape[1] // GROUP):
        start, end = group * GROUP, (group + 1) * GROUP
        own = left[:, start:end].clone()
        scale, offset = search_range(own, importance[start:end])
        errors = torch.empty_like(own)
        for column in range(GROUP):
            place = start + column
            code = nearest_codes(own[:, column], scale, offset)
            codes[:, place] = code.to(torch.uint8)
            errors[:, column] = (own[:, column] - (code * scale + offset)) / factor[place, place]
            own[:, column + 1 :] -= torch.outer(errors[:, column], factor[place, place + 1 : end])
        left[:, end:] -= errors @ factor[start:end, end:]
        scales[:, group], offsets[:, group] = scale, offset
    return Int4Codes(codes, scales, offsets)
