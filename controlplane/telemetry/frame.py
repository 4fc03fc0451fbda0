"""A frame: all series of one metric in one window as one compressed block (pure).

Layout: a small header, then the columns as one zstd-1 stream (or plain). Integer columns take the narrowest unsigned
type that holds their largest value; every column wider than a byte is stored as byte planes (all first bytes, then all
second bytes, ...), which compress far better.

Guarantee: decode(encode(block)) == block, and merging is exact: counts are added in 64 bits and narrowed afterwards.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.telemetry.compression import compress, decompress

_HEADER = struct.Struct("<BBIHH")  # form of the body, bytes of a count, series, first axis position, axis positions
_ZSTD, _PLAIN = 1, 2
_WIDTHS = ((1, np.uint8), (2, np.uint16), (4, np.uint32), (8, np.uint64))

Ids = NDArray[np.int32]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass
class HistogramBlock:
    """Histograms on the contract's axis, one row a series; `series` is ascending and without repeats.

    counts: unsigned[n, width], columns at axis positions low .. low + width - 1; error: relative error of a quantile.
    """

    series: Ids
    low: int
    counts: NDArray[Any]
    zero: Ints
    total: Floats
    minimum: Floats
    maximum: Floats
    error: Floats


@dataclass
class ScalarBlock:
    """Numbers, one row a series; `series` is ascending and without repeats. time_ns: a gauge's instant."""

    series: Ids
    value: Floats
    time_ns: Ints


def encode_histograms(block: HistogramBlock, *, plain: bool = False) -> bytes:
    """`plain`: not compressed, for what is soon rewritten."""
    size, narrow = _narrowest(block.counts)
    parts = [
        _planes(block.series),
        _planes(np.ascontiguousarray(block.counts, dtype=narrow)),
        *(_planes(column) for column in (block.zero, block.total, block.minimum, block.maximum, block.error)),
    ]
    return _closed(parts, plain, size, len(block.series), block.low, block.counts.shape[1])


def decode_histograms(frame: bytes) -> HistogramBlock:
    columns, n, size, low, width = _open(frame)
    series = columns.take(np.dtype(np.int32), n)
    counts = columns.take(np.dtype(dict(_WIDTHS)[size]), n * width).reshape(n, width)
    zero = columns.take(np.dtype(np.int64), n)
    total, minimum, maximum, error = (columns.take(np.dtype(np.float64), n) for _ in range(4))
    return HistogramBlock(series, low, counts, zero, total, minimum, maximum, error)


def encode_scalars(block: ScalarBlock, *, plain: bool = False) -> bytes:
    parts = [_planes(column) for column in (block.series, block.value, block.time_ns)]
    return _closed(parts, plain, 0, len(block.series), 0, 0)


def decode_scalars(frame: bytes) -> ScalarBlock:
    columns, n, *_ = _open(frame)
    series = columns.take(np.dtype(np.int32), n)
    return ScalarBlock(series, columns.take(np.dtype(np.float64), n), columns.take(np.dtype(np.int64), n))


def merge_histograms(blocks: Sequence[HistogramBlock]) -> HistogramBlock:
    """The sum of several blocks (at least one)."""
    low = min(block.low for block in blocks)
    width = max(block.low + block.counts.shape[1] for block in blocks) - low
    series, inverse = np.unique(np.concatenate([block.series for block in blocks]), return_inverse=True)
    n = len(series)
    merged = HistogramBlock(
        series.astype(np.int32),
        low,
        np.zeros((n, width), np.uint64),
        np.zeros(n, np.int64),
        np.zeros(n),
        np.full(n, np.inf),
        np.full(n, -np.inf),
        np.zeros(n),
    )
    start = 0
    for block in blocks:
        rows = inverse[start : start + len(block.series)]
        start += len(block.series)
        offset = block.low - low
        merged.counts[rows, offset : offset + block.counts.shape[1]] += block.counts.astype(np.uint64)
        merged.zero[rows] += block.zero
        merged.total[rows] += block.total
        merged.minimum[rows] = np.minimum(merged.minimum[rows], block.minimum)
        merged.maximum[rows] = np.maximum(merged.maximum[rows], block.maximum)
        merged.error[rows] = np.maximum(merged.error[rows], block.error)
    return merged


def merge_sums(blocks: Sequence[ScalarBlock]) -> ScalarBlock:
    series, inverse = np.unique(np.concatenate([block.series for block in blocks]), return_inverse=True)
    value = np.zeros(len(series))
    np.add.at(value, inverse, np.concatenate([block.value for block in blocks]))
    time_ns = np.zeros(len(series), np.int64)
    np.maximum.at(time_ns, inverse, np.concatenate([block.time_ns for block in blocks]))
    return ScalarBlock(series.astype(np.int32), value, time_ns)


def merge_gauges(blocks: Sequence[ScalarBlock]) -> ScalarBlock:
    """The latest value of each series; of two at the same instant, the one that came later."""
    series = np.concatenate([block.series for block in blocks])
    time_ns = np.concatenate([block.time_ns for block in blocks])
    value = np.concatenate([block.value for block in blocks])
    order = np.lexsort((np.arange(len(series)), time_ns, series))
    last = np.append(series[order][1:] != series[order][:-1], True)[: len(order)]
    keep = order[last]
    return ScalarBlock(series[keep], value[keep], time_ns[keep])


class _Columns:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, dtype: np.dtype[Any], n: int) -> NDArray[Any]:
        """The next column of n values, out of its byte planes."""
        planes = np.frombuffer(self._data, np.uint8, n * dtype.itemsize, self._at).reshape(dtype.itemsize, n)
        self._at += n * dtype.itemsize
        return planes[0] if dtype.itemsize == 1 else np.ascontiguousarray(planes.T).view(dtype)[:, 0]


def _closed(parts: list[bytes], plain: bool, *shape: int) -> bytes:
    body = b"".join(parts)
    return _HEADER.pack(_PLAIN if plain else _ZSTD, *shape) + (body if plain else compress(body))


def _open(frame: bytes) -> tuple[_Columns, int, int, int, int]:
    form, size, n, low, width = _HEADER.unpack_from(frame)
    if form not in (_ZSTD, _PLAIN):
        raise ValueError(f"a frame of form {form}, this code reads {_ZSTD} and {_PLAIN}")
    body = frame[_HEADER.size :]
    return _Columns(body if form == _PLAIN else decompress(body)), n, size, low, width


def _planes(column: NDArray[Any]) -> bytes:
    """Little-endian byte planes of an array."""
    size = column.dtype.itemsize
    flat = np.ascontiguousarray(column.astype(column.dtype.newbyteorder("<"), copy=False)).reshape(-1)
    return flat.view(np.uint8).reshape(-1, size).T.tobytes()


def _narrowest(counts: NDArray[Any]) -> tuple[int, type[Any]]:
    largest = int(counts.max(initial=0))
    return next((size, dtype) for size, dtype in _WIDTHS if largest < 1 << (8 * size))
