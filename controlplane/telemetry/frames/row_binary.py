"""ClickHouse's RowBinary format, for the types that the frames need (pure).

Source: ClickHouse's documentation, "Formats: RowBinary": integers little-endian, a String as its length (LEB128) and
its bytes. Guarantee: decode(encode(rows)) == rows; `decode` raises ValueError where the data is cut off.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

_LAYOUTS = {
    "UInt16": struct.Struct("<H"),
    "Int32": struct.Struct("<i"),
    "Int64": struct.Struct("<q"),
    "UInt64": struct.Struct("<Q"),
}


def encode(rows: Iterable[Sequence[Any]], types: Sequence[str]) -> bytes:
    """`types` names each column's type: UInt16, Int32, Int64, UInt64 or String (bytes)."""
    layouts = [_LAYOUTS.get(kind) for kind in types]
    parts: list[bytes] = []
    for row in rows:
        for layout, value in zip(layouts, row, strict=True):
            if layout is not None:
                parts.append(layout.pack(value))
            else:
                parts += (_length(len(value)), value)
    return b"".join(parts)


def decode(data: bytes, types: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    layouts = [_LAYOUTS.get(kind) for kind in types]
    at = 0
    while at < len(data):
        row: list[Any] = []
        for layout in layouts:
            try:
                if layout is not None:
                    row.append(layout.unpack_from(data, at)[0])
                    at += layout.size
                    continue
                length, at = _read_length(data, at)
            except (struct.error, IndexError):
                raise ValueError(f"RowBinary: cut off at byte {at}") from None
            if at + length > len(data):
                raise ValueError(f"RowBinary: cut off at byte {at}")
            row.append(data[at : at + length])
            at += length
        yield tuple(row)


def _length(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
