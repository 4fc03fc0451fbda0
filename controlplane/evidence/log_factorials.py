"""Logarithms of factorials, computed once: what exact tests of counts are made of."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_known: Floats = np.zeros(1)


def log_factorials(largest: int) -> Floats:
    """ln 0!, ln 1!, ..., at least up to ln largest!."""
    global _known
    if largest >= len(_known):
        size = max(2 * len(_known), largest + 1)
        _known = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, size, dtype=np.float64)))])
    return _known
