"""Whether a layer gives a row the same bits whatever rows are computed beside it.

Looked at rather than believed: libraries take other kernels, and so other orders of addition, by the number of rows,
and which ones is a matter of the processor (Intel's MKL in float32: below 16 rows on AVX512; oneDNN on SSE 4.1: a
single row). The numbers of rows are those at which a library may change over, and at which the runner computes.
"""

from collections.abc import Callable

import torch
from torch import Tensor

COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 20, 24, 31, 32, 33, 48, 64, 96, 128, 192, 256)
_MOST_ROWS = 320
_MOST_PRODUCTS = 2**30  # Of the largest number of rows: half a second at the slowest.
_FIRST = 5  # Rows come from the middle: their place among the others must not matter either.


@torch.inference_mode()
def rows_are_their_own(layer: Callable[[Tensor], Tensor], size: tuple[int, int], dtype: torch.dtype) -> bool:
    """size: outputs and inputs. A head of hundreds of thousands of outputs is looked at with fewer rows."""
    outputs, inputs = size
    most = max(24, min(_MOST_ROWS, _MOST_PRODUCTS // (outputs * inputs)))
    rows = torch.randn((most, inputs), generator=torch.Generator().manual_seed(5)).to(dtype)
    whole = layer(rows)
    for count in COUNTS:
        own = slice(_FIRST, _FIRST + count)
        if own.stop <= most and not torch.equal(layer(rows[own].clone()), whole[own]):
            return False
    return True
