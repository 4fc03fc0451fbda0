"""The log of points that are not in a frame yet: `Columns` with the store's ids to bytes, one row a commit (pure).

The columns stand one after the other as they are in memory, little-endian, as one zstd-1 stream: a row lives for half a
minute only, but all of it is written twice (log and database), and a third of the bytes is worth the few microseconds.

Guarantee: decode(encode(columns)) == columns. `decode` raises `Damaged` where the bytes are not what was written.
"""

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.telemetry.values.columns import Columns, HistogramRows, NumberRows
from controlplane.telemetry.values.compression import compress, decompress

MAGIC = b"TTP1"
_HEADER = struct.Struct("<4sI")  # magic, CRC-32 of all that follows
_SHAPE = struct.Struct("<IIIQB")  # histograms, sums, gauges, cells, bytes of a cell
_HISTOGRAM = (
    ("window", "<i8"),
    ("metric", "<i4"),
    ("labels", "<i4"),
    ("low", "<i4"),
    ("width", "<i4"),
    ("zero", "<i8"),
    ("total", "<f8"),
    ("minimum", "<f8"),
    ("maximum", "<f8"),
    ("error", "<f8"),
)
_NUMBER = (("window", "<i8"), ("metric", "<i4"), ("labels", "<i4"), ("value", "<f8"), ("time_ns", "<i8"))


class Damaged(ValueError):
    """A pending row that does not read as it was written."""


def encode(columns: Columns) -> bytes:
    histograms = columns.histograms
    cells = histograms.cells
    parts = [
        _SHAPE.pack(len(histograms), len(columns.sums), len(columns.gauges), len(cells), cells.dtype.itemsize),
        *(_bytes(getattr(histograms, name), dtype) for name, dtype in _HISTOGRAM),
        _bytes(cells, f"<u{cells.dtype.itemsize}"),
        *(_bytes(getattr(columns.sums, name), dtype) for name, dtype in _NUMBER),
        *(_bytes(getattr(columns.gauges, name), dtype) for name, dtype in _NUMBER),
    ]
    body = compress(b"".join(parts))
    return _HEADER.pack(MAGIC, zlib.crc32(body)) + body


def decode(row: bytes) -> Columns:
    """The arrays are read-only views of one block of memory."""
    if len(row) < _HEADER.size:
        raise Damaged(f"{len(row)} bytes are too few for a pending row")
    magic, stated = _HEADER.unpack_from(row)
    if magic != MAGIC:
        raise Damaged(f"magic {magic!r}, this code reads {MAGIC!r}")
    body = memoryview(row)[_HEADER.size :]
    found = zlib.crc32(body)
    if found != stated:
        raise Damaged(f"the checksum is {found:08x}, {stated:08x} was written")
    plain = decompress(body)
    histograms, sums, gauges, cells, size = _SHAPE.unpack_from(plain)
    reader = _Reader(plain, _SHAPE.size)
    columns = {name: reader.take(dtype, histograms) for name, dtype in _HISTOGRAM}
    rows = HistogramRows(**columns, cells=reader.take(f"<u{size}", cells))
    numbers = [NumberRows(**{name: reader.take(dtype, n) for name, dtype in _NUMBER}) for n in (sums, gauges)]
    return Columns(rows, *numbers)


class _Reader:
    def __init__(self, plain: bytes, at: int) -> None:
        self._plain = plain
        self._at = at

    def take(self, dtype: str, n: int) -> NDArray[Any]:
        column = np.frombuffer(self._plain, dtype, n, self._at)
        self._at += column.nbytes
        return column


def _bytes(column: NDArray[Any], dtype: str) -> bytes:
    return column.astype(dtype, copy=False).tobytes()
