"""Smallest and largest values as whole numbers: their binary logarithm in units of 2**-21 octaves (pure).

A bucket of the axis is 2**16 units wide, so that an extreme within the end bucket of its histogram takes two bytes.

Guarantee: minima are rounded down and maxima up, by less than 3.4e-7 of their value; what was rounded once stays as it
is. Zero and "there is none" (infinite) have codes of their own; other values that have no logarithm are kept exactly.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import AXIS_MIN, SCALE
from controlplane.telemetry.values.columns import Floats

UNIT_BITS = 21
UNITS = 1 << UNIT_BITS
_BUCKET = 1 << (UNIT_BITS - SCALE)
_LEAST, _MOST = 2.0**-1000, 2.0**1000
"""Between these a code is far from 32 bits' ends."""
ZERO, ABSENT, EXACT = (np.int32(-(2**31) + i) for i in range(3))
Codes = NDArray[np.int32]


class Extreme(NamedTuple):
    """`exact`: the values of the rows whose code is EXACT, in their order."""

    code: Codes
    exact: Floats


def edge(position: int) -> np.int32:
    """The code of the lower edge of the bucket at a position of the axis."""
    return np.int32((AXIS_MIN + position) * _BUCKET)


def codes(minimum: Floats, maximum: Floats) -> tuple[Extreme, Extreme]:
    return _codes(minimum, np.inf, -1), _codes(maximum, -np.inf, 1)


def values(lower: Codes, upper: Codes, exact: Floats) -> tuple[Floats, Floats]:
    """What `codes` was given, rounded; `exact`: those of the minima, then those of the maxima. Raises ValueError."""
    if not len(exact) and len(lower) and min(lower.min(), upper.min()) > EXACT:  # As nearly always.
        return np.exp2(lower / UNITS), np.exp2(upper / UNITS)
    of_lower = int((lower == EXACT).sum())
    if of_lower + int((upper == EXACT).sum()) != len(exact):
        raise ValueError(f"{len(exact)} exact extremes, other than the codes say")
    return _values(lower, np.inf, exact[:of_lower]), _values(upper, -np.inf, exact[of_lower:])


def rounded(minimum: Floats, maximum: Floats) -> tuple[Floats, Floats]:
    """What they will be read as once they have been kept."""
    lower, upper = codes(minimum, maximum)
    return values(lower.code, upper.code, np.concatenate([lower.exact, upper.exact]))


def _codes(value: Floats, absent: float, outward: int) -> Extreme:
    plain = (value >= _LEAST) & (value <= _MOST)
    if plain.all():
        return Extreme(_rounded(value, outward), value[:0])
    code = np.full(len(value), EXACT, np.int32)
    code[plain] = _rounded(value[plain], outward)
    # A negative zero is kept exactly: it is another value to the bit.
    code[(value == 0.0) & ~np.signbit(value)] = ZERO
    code[value == absent] = ABSENT
    return Extreme(code, value[code == EXACT])


def _rounded(value: Floats, outward: int) -> Codes:
    nearest: Codes = np.rint(np.log2(value) * UNITS).astype(np.int32)
    # Compared with what it will be read as: a code is read back as a value that has this same code.
    back = np.exp2(nearest / UNITS)
    return nearest + np.int32(outward) * (back > value if outward < 0 else back < value)


def _values(code: Codes, absent: float, exact: Floats) -> Floats:
    special = code <= EXACT
    if not special.any():
        return np.exp2(code / UNITS)
    value = np.exp2(np.where(special, 0, code) / UNITS)
    value[code == ZERO] = 0.0
    value[code == ABSENT] = absent
    value[code == EXACT] = exact
    return value
