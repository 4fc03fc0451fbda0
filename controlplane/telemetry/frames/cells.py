"""Buckets' counts as planes of hexadecimal digits, two neighbours in a byte (pure).

Most counts of one report are below 16: half the bytes hold them, and the byte of two neighbours compresses better than
each by itself (54 to 46 bytes a histogram of 200 values). Digits that are nowhere needed are left out.

Guarantee: unpack(pack(counts)) == counts, in the narrowest type that holds as many digits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BITS = 4
_TYPES: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""By their bytes."""


def digits_of(counts: NDArray[Any]) -> int:
    """How many digits the largest count has."""
    return max(1, -(-int(counts.max(initial=0)).bit_length() // _BITS))


def size_of(digits: int, rows: int, width: int) -> int:
    """Bytes of packed counts."""
    return digits * rows * ((width + 1) // 2)


def pack(counts: NDArray[Any], digits: int) -> bytes:
    """counts: unsigned[n, width]. One plane after the other, the lowest digits first."""
    if counts.shape[1] % 2:
        counts = np.concatenate([counts, np.zeros((len(counts), 1), counts.dtype)], axis=1)
    if digits == 1:
        return _halved(np.ascontiguousarray(counts, np.uint8))
    number = counts.dtype.type
    return b"".join(_halved((counts >> number(_BITS * digit) & number(15)).astype(np.uint8)) for digit in range(digits))


def unpack(packed: memoryview, digits: int, rows: int, width: int) -> NDArray[Any]:
    """counts[rows, width]. Raises ValueError where `packed` has another size."""
    planes = np.frombuffer(packed, np.uint8).reshape(digits, rows, (width + 1) // 2)
    if digits <= 2:  # As nearly always: both neighbours at once.
        pairs = _apart(planes[0])
        if digits == 2:
            pairs |= _apart(planes[1]) << _BITS
        return pairs.view(np.uint8)[:, :width]
    dtype = _TYPES[next(size for size in _TYPES if 2 * size >= digits)]
    whole: NDArray[Any] = np.zeros((rows, width), dtype)
    for digit in range(digits):
        whole |= _apart(planes[digit]).view(np.uint8)[:, :width].astype(dtype) << dtype(_BITS * digit)
    return whole


def _apart(plane: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """The two neighbours of each byte, a byte each."""
    pairs = plane.astype("<u2")
    pairs |= pairs << _BITS
    pairs &= 0x0F0F
    return pairs


def _halved(digits: NDArray[np.uint8]) -> bytes:
    """Two neighbours in a byte."""
    pairs = digits.view("<u2")
    halved: bytes = (pairs | pairs >> _BITS).astype(np.uint8).tobytes()
    return halved
