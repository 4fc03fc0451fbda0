"""A frame: one block as bytes, compressed and checked (pure).

Every row becomes a record of fixed width; the records are stored as byte planes (all first bytes, then all second
bytes, ...). The planes that repeat themselves and the buckets (see `cells`) are one zstd-1 stream; the planes that hold
nothing but noise (low bytes of sums and of extremes) stand behind it as they are, so that they do not spoil its codes.
Columns are differences from what is to be expected, so that they are mostly zeros: labels from the row before, errors
from the axis's own, extremes from the edges of the block, times from the latest.

Guarantee: decode(encode(block)) == block: counts, zero counts, sums, errors, values and times to the bit; `minimum` and
`maximum` are rounded outward to multiples of 2**-21 octaves, which is at most 3.4e-7 of their value, once: encoding
again what was decoded changes nothing. `decode` raises `Damaged` for bytes that are not what was written.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.frames import cells
from controlplane.telemetry.frames.block import Block, HistogramBlock, ScalarBlock
from controlplane.telemetry.values import extremes
from controlplane.telemetry.values.columns import Ints
from controlplane.telemetry.values.compression import CompressionError, compress, decompress

_FORMS = {MetricKind.HISTOGRAM: 1, MetricKind.SUM: 2, MetricKind.GAUGE: 3}
_KIND_OF = {form: kind for kind, form in _FORMS.items()}
_HEADER = struct.Struct("<IBBBHHIIIq")
"""CRC-32 of what follows it, form, columns left out, digits of a count, first position, positions, rows, exact
extremes, first labels id, latest time."""
_CHECKED = 4
_ERROR_BITS = int(np.array(RELATIVE_ERROR).view(np.uint64))


class Damaged(ValueError):
    """A frame that does not read as it was written."""


class _Layout:
    """A record, which of its bytes are noise, and in which order its bytes' planes are kept: the noise comes last."""

    def __init__(self, columns: Sequence[tuple[str, str]], noise: Sequence[int] = ()) -> None:
        self.record: np.dtype[Any] = np.dtype(list(columns))
        self.size = self.record.itemsize
        self.noisy = len(noise)
        self.clean = self.size - self.noisy
        self.order = np.array([byte for byte in range(self.size) if byte not in noise] + list(noise))


def _layouts(always: Sequence[tuple[str, str]], often_zero: Sequence[str], noise: Sequence[int] = ()) -> list[_Layout]:
    """A layout for each set of columns that are left out because they are nothing but zeros; bits by their place."""
    return [
        _Layout([*always, *((name, "<u8") for i, name in enumerate(often_zero) if not left_out >> i & 1)], noise)
        for left_out in range(1 << len(often_zero))
    ]


_ZERO, _ERROR, _TIME = 1, 2, 1
_HISTOGRAM = _layouts(
    [("total", "<u8"), ("minimum", "<u4"), ("maximum", "<u4"), ("labels", "<u4")],
    ["zero", "error"],
    noise=(0, 1, 2, 3, 4, 5, 8, 9, 12, 13),
)
_SCALAR = _layouts([("value", "<u8"), ("labels", "<u4")], ["time"])


def encode(block: Block) -> bytes:
    if isinstance(block, HistogramBlock):
        return _encode_histograms(block)
    return _encode_scalars(block)


def decode(frame: bytes) -> Block:
    """Raises `Damaged`."""
    try:
        stated, form, left_out, digits, low, width, n, exact, first, latest = _HEADER.unpack_from(frame)
        found = zlib.crc32(memoryview(frame)[_CHECKED:])
        if found != stated:
            raise Damaged(f"the checksum is {found:08x}, {stated:08x} was written")
        kind = _KIND_OF[form]
        if kind is MetricKind.HISTOGRAM:
            return _decode_histograms(frame, _HISTOGRAM[left_out], digits, low, width, n, exact, first)
        return _decode_scalars(frame, _SCALAR[left_out], kind, n, first, latest)
    except (struct.error, LookupError, CompressionError, ValueError) as error:
        if isinstance(error, Damaged):
            raise
        raise Damaged(f"{len(frame)} bytes that are no frame: {error}") from error


def rows_of(frame: bytes) -> int:
    """How many rows a frame has, without decoding it."""
    rows: int = _HEADER.unpack_from(frame)[6]
    return rows


def _encode_histograms(block: HistogramBlock) -> bytes:
    n, width = block.counts.shape
    digits = cells.digits_of(block.counts)
    lower, upper = extremes.codes(block.minimum, block.maximum)
    error = block.error.view(np.uint64) ^ _ERROR_BITS
    left_out = (0 if block.zero.any() else _ZERO) | (0 if error.any() else _ERROR)
    layout = _HISTOGRAM[left_out]
    records = np.empty(n, layout.record)
    records["total"] = block.total.view(np.uint64)
    records["minimum"] = (lower.code - extremes.edge(block.low)).view(np.uint32)
    records["maximum"] = (extremes.edge(block.low + width) - upper.code).view(np.uint32)
    records["labels"] = _differences(block.labels)
    if not left_out & _ZERO:
        records["zero"] = block.zero
    if not left_out & _ERROR:
        records["error"] = error
    exact = lower.exact.tobytes() + upper.exact.tobytes()
    shape = (left_out, digits, block.low, width, n, len(exact) // 8, _first(block.labels), 0)
    return _closed(_FORMS[block.kind], shape, layout, records, cells.pack(block.counts, digits), exact)


def _decode_histograms(
    frame: bytes, layout: _Layout, digits: int, low: int, width: int, n: int, exact: int, first: int
) -> HistogramBlock:
    end = len(frame) - 8 * exact
    records, packed = _opened(frame, end, layout, n, cells.size_of(digits, n, width))
    lower = records["minimum"].view(np.int32) + extremes.edge(low)
    upper = extremes.edge(low + width) - records["maximum"].view(np.int32)
    minimum, maximum = extremes.values(lower, upper, np.frombuffer(frame, "<f8", exact, end))
    return HistogramBlock(
        _labels(records, first),
        low,
        cells.unpack(packed, digits, n, width),
        _column(records, "zero").astype(np.int64),
        np.ascontiguousarray(records["total"]).view(np.float64),
        minimum,
        maximum,
        (_column(records, "error") ^ np.uint64(_ERROR_BITS)).view(np.float64),
    )


def _encode_scalars(block: ScalarBlock) -> bytes:
    n = len(block)
    latest = int(block.time_ns.max()) if n else 0
    time = latest - block.time_ns
    left_out = 0 if time.any() else _TIME
    layout = _SCALAR[left_out]
    records = np.empty(n, layout.record)
    records["value"] = block.value.view(np.uint64)
    records["labels"] = _differences(block.labels)
    if not left_out:
        records["time"] = time
    shape = (left_out, 0, 0, 0, n, 0, _first(block.labels), latest)
    return _closed(_FORMS[block.kind], shape, layout, records, b"", b"")


def _decode_scalars(frame: bytes, layout: _Layout, kind: MetricKind, n: int, first: int, latest: int) -> ScalarBlock:
    records, _ = _opened(frame, len(frame), layout, n, 0)
    time_ns: Ints = latest - _column(records, "time").astype(np.int64)
    return ScalarBlock(_labels(records, first), np.ascontiguousarray(records["value"]).view(np.float64), time_ns, kind)


def _closed(
    form: int, shape: tuple[int, ...], layout: _Layout, records: NDArray[Any], packed: bytes, exact: bytes
) -> bytes:
    planes = records.view(np.uint8).reshape(len(records), layout.size).T[layout.order]
    body: bytes = compress(planes[: layout.clean].tobytes() + packed) + planes[layout.clean :].tobytes() + exact
    rest = _HEADER.pack(0, form, *shape)[_CHECKED:] + body
    return zlib.crc32(rest).to_bytes(_CHECKED, "little") + rest


def _opened(frame: bytes, end: int, layout: _Layout, n: int, packed: int) -> tuple[NDArray[Any], memoryview]:
    """The records, and the `packed` bytes of the buckets; `end`: where the noise ends."""
    noise, clean = n * layout.noisy, n * layout.clean
    body = memoryview(decompress(memoryview(frame)[_HEADER.size : end - noise]))
    if len(body) != clean + packed:
        raise Damaged(f"{len(body)} bytes of columns, {clean + packed} are stated")
    planes = np.empty((layout.size, n), np.uint8)
    planes[layout.order[: layout.clean]] = np.frombuffer(body, np.uint8, clean).reshape(layout.clean, n)
    planes[layout.order[layout.clean :]] = np.frombuffer(frame, np.uint8, noise, end - noise).reshape(layout.noisy, n)
    return np.ascontiguousarray(planes.T).view(layout.record)[:, 0], body[clean:]


def _column(records: NDArray[Any], name: str) -> NDArray[np.uint64]:
    """A column that may have been left out."""
    found: NDArray[np.uint64] = (
        records[name] if name in (records.dtype.names or ()) else np.zeros(len(records), np.uint64)
    )
    return found


def _first(labels: NDArray[np.int32]) -> int:
    return int(labels[0]) if len(labels) else 0


def _differences(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """How far each label id is from the one before; 0 for the first."""
    found = np.zeros(len(labels), np.int32)
    np.subtract(labels[1:], labels[:-1], out=found[1:])
    return found


def _labels(records: NDArray[Any], first: int) -> NDArray[np.int32]:
    labels: NDArray[np.int32] = np.cumsum(records["labels"], dtype=np.int32)
    return labels + np.int32(first)
