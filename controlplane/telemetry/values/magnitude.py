"""How large a value may be: however many of them are added up, the sum stays a finite double."""

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e100
"""A double ends at 1.8e308: 10^208 values of this size can be added. No unit makes a real measurement so large."""


def fits(value: float) -> bool:
    """False for NaN and infinities, too."""
    return abs(value) <= LARGEST


def all_that_fit(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Of each value, in the shape of `values`, whether it fits."""
    return np.abs(values) <= LARGEST
