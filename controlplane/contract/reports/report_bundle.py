"""A bundle: many packed reports in one body, as history is loaded with `POST /v1/history`.

Reports that follow each other in a bundle with the same (stream, ordinal) are one part: it counts as a whole, once. So
a part is always sent whole, in one bundle; which parts share a bundle does not matter.

Guarantee: unbundle(bundle(bodies)) == bodies; `unbundle` raises ValueError for anything else.

Layout, little-endian: each report's length u32, then the report (`packed_report`).
"""

import struct
from collections.abc import Iterable

MEDIA_TYPE = "application/x-tailwright-reports"
PATH = "/v1/history"
LIMIT_PLAIN = 64 << 20
"""Bytes of a bundle, plain."""
LENGTH = struct.Struct("<I")


def bundle(bodies: Iterable[bytes]) -> bytes:
    """One body of several reports' bodies."""
    return b"".join(part for body in bodies for part in (LENGTH.pack(len(body)), body))


def unbundle(body: bytes) -> list[bytes]:
    """The reports' bodies."""
    found = []
    at = 0
    while at < len(body):
        if at + LENGTH.size > len(body):
            raise ValueError(f"bundle: cut off at byte {at}, within a length")
        (length,) = LENGTH.unpack_from(body, at)
        at += LENGTH.size
        if at + length > len(body):
            raise ValueError(f"bundle: cut off: {length} bytes are stated at byte {at} and {len(body) - at} are there")
        found.append(body[at : at + length])
        at += length
    return found
