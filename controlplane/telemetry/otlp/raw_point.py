"""One data point as its sender stated it: its own buckets, before they are put on the contract's axis.

Guarantee: decode(encode(point)) == point, and equal points have equal bytes: they are what is remembered of a
cumulative series (`controlplane.telemetry.reports.cumulative`).
"""

import math
import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

MAX_BUCKETS = 1 << 14
"""Buckets that one point may span, empty ones inside it counted."""

_HEAD = struct.Struct("<Bqq")
_WHOLE = struct.Struct("<q")
_REAL = struct.Struct("<d")
_EXTREMES = struct.Struct("<ddd")
_BUCKETS = struct.Struct("<hqQdBI")
_BOUNDS = struct.Struct("<IBI")
_INT, _FLOAT, _EXPONENTIAL, _EXPLICIT = range(4)
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


@dataclass(frozen=True, slots=True)
class RawNumber:
    """start_ns 0: not known."""

    start_ns: int
    time_ns: int
    value: int | float


@dataclass(frozen=True, slots=True)
class RawExponential:
    """counts[i]: values in (base ** (offset + i), base ** (offset + i + 1)], base = 2 ** (2 ** -scale); trimmed."""

    start_ns: int
    time_ns: int
    scale: int
    offset: int
    counts: tuple[int, ...]
    zero: int
    zero_threshold: float = 0.0
    total: float | None = None
    minimum: float | None = None
    maximum: float | None = None

    @property
    def count(self) -> int:
        return self.zero + sum(self.counts)


@dataclass(frozen=True, slots=True)
class RawExplicit:
    """counts[i]: values in (bounds[i - 1], bounds[i]]; one count more than bounds."""

    start_ns: int
    time_ns: int
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float | None = None
    minimum: float | None = None
    maximum: float | None = None

    @property
    def count(self) -> int:
        return sum(self.counts)


RawPoint = RawNumber | RawExponential | RawExplicit


def trimmed(offset: int, counts: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """(offset, counts) without empty buckets at either end; (0, ()) when all are empty."""
    first, last = 0, len(counts)
    while last and not counts[last - 1]:
        last -= 1
    while first < last and not counts[first]:
        first += 1
    return (offset + first, tuple(counts[first:last])) if first < last else (0, ())


def encode(point: RawPoint) -> bytes:
    if isinstance(point, RawNumber):
        kind, layout = (_INT, _WHOLE) if isinstance(point.value, int) else (_FLOAT, _REAL)
        return _HEAD.pack(kind, point.start_ns, point.time_ns) + layout.pack(point.value)
    extremes = _EXTREMES.pack(*(math.nan if x is None else x for x in (point.total, point.minimum, point.maximum)))
    size = _cell_bytes(point.counts)
    cells = _column(_CODES[size], point.counts)
    if isinstance(point, RawExplicit):
        head = _HEAD.pack(_EXPLICIT, point.start_ns, point.time_ns)
        return b"".join(
            (
                head,
                extremes,
                _BOUNDS.pack(len(point.bounds), size, len(point.counts)),
                _column("d", point.bounds),
                cells,
            )
        )
    head = _HEAD.pack(_EXPONENTIAL, point.start_ns, point.time_ns)
    buckets = _BUCKETS.pack(point.scale, point.offset, point.zero, point.zero_threshold, size, len(point.counts))
    return b"".join((head, extremes, buckets, cells))


def decode(state: bytes) -> RawPoint:
    kind, start_ns, time_ns = _HEAD.unpack_from(state)
    at = _HEAD.size
    if kind in (_INT, _FLOAT):
        (value,) = (_WHOLE if kind == _INT else _REAL).unpack_from(state, at)
        return RawNumber(start_ns, time_ns, value)
    total, minimum, maximum = (None if math.isnan(x) else x for x in _EXTREMES.unpack_from(state, at))
    at += _EXTREMES.size
    if kind == _EXPLICIT:
        bounds, size, cells = _BOUNDS.unpack_from(state, at)
        at += _BOUNDS.size
        edges = tuple(_read("d", state[at : at + 8 * bounds]))
        at += 8 * bounds
        counts = tuple(map(int, _read(_CODES[size], state[at : at + size * cells])))
        return RawExplicit(start_ns, time_ns, edges, counts, total, minimum, maximum)
    scale, offset, zero, threshold, size, cells = _BUCKETS.unpack_from(state, at)
    at += _BUCKETS.size
    counts = tuple(map(int, _read(_CODES[size], state[at : at + size * cells])))
    return RawExponential(start_ns, time_ns, scale, offset, counts, zero, threshold, total, minimum, maximum)


def time_of(state: bytes) -> int:
    """When the point of these bytes was taken, in nanoseconds."""
    time_ns: int = _HEAD.unpack_from(state)[2]
    return time_ns


def _cell_bytes(counts: Sequence[int]) -> int:
    largest = max(counts, default=0)
    return next((size for size in _CODES if largest < 1 << (8 * size)), 8)


def _column(code: str, values: Sequence[int] | Sequence[float]) -> bytes:
    column = array(code, values)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def _read(code: str, data: bytes) -> "array[int] | array[float]":
    column: array[int] | array[float] = array(code)
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column
