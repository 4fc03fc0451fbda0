"""Request bodies without their Content-Encoding.

Guarantee: the plain body has at most `LIMIT_DECODED` bytes, and beyond `FREE_BYTES` at most `LIMIT_RATIO` times what
was sent: a decompression bomb is given up there, never held whole. Errors: `Unsupported` (415), `TooLarge` (413),
`BadRequest` (400).
"""

import threading
import zlib

import zstandard

from controlplane.contract.errors import BadRequest, TooLarge, Unsupported

LIMIT_DECODED = 8 << 20
LIMIT_RATIO = 200
"""Reports shrink 3 to 30 times; zlib cannot go beyond 1,030, zstd knows no bound."""
FREE_BYTES = 1 << 20
"""A body of this size is taken whatever its ratio: many equal points do compress that well."""
ENCODINGS = ("gzip", "zstd", "deflate", "identity")
MOST_MEMBERS = 64
"""Of a gzip body. What is left is copied at each one's end, so that thousands of empty ones would cost minutes."""
_ZSTD_WINDOW = LIMIT_DECODED
_ZSTD_CHUNK = 256
"""Bytes given to a decompressor at a time where a frame does not state its size: 64 blocks of 128 KiB at most."""
_local = threading.local()


def decompress(body: bytes, encoding: str, most: int = LIMIT_DECODED) -> bytes:
    """The plain body, of at most `most` bytes; `encoding` is the header's value ("" for none)."""
    kind = encoding.strip().lower()
    limit = min(most, max(FREE_BYTES, LIMIT_RATIO * len(body)))
    if kind == "zstd":
        return _unzstd(body, limit)
    if kind == "gzip":
        return _inflate(body, 16 + zlib.MAX_WBITS, limit)
    if kind in ("", "identity"):
        return _within(body, most)
    if kind == "deflate":
        return _inflate(body, zlib.MAX_WBITS, limit)
    raise Unsupported(
        f"Content-Encoding {encoding[:80]!r} is not one of {', '.join(ENCODINGS)}", field="Content-Encoding"
    )


def _inflate(body: bytes, window_bits: int, limit: int) -> bytes:
    plain, rest = b"", body
    try:
        for _ in range(MOST_MEMBERS):
            member = zlib.decompressobj(window_bits)
            part = member.decompress(rest, limit + 1 - len(plain))
            plain = _within(plain + part if plain else part, limit)
            if not member.eof:
                raise BadRequest("body: the compressed data is cut off", field="body")
            rest = member.unused_data
            if not rest:
                return plain
    except zlib.error as error:
        raise BadRequest(f"body: Content-Encoding says compressed, but: {error}", field="body") from error
    raise BadRequest(f"body: more than {MOST_MEMBERS} compressed members one after the other", field="body")


def _unzstd(body: bytes, limit: int) -> bytes:
    decompressor: zstandard.ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if decompressor is None:  # One a thread: it must not be shared, and is costly to make.
        decompressor = _local.decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    try:
        stated = zstandard.frame_content_size(body)
        if stated > limit:
            raise _too_large(limit)
        if stated >= 0:
            return decompressor.decompress(body, allow_extra_data=False)
        return _unzstd_unstated(decompressor, body, limit)
    except zstandard.ZstdError as error:
        raise BadRequest(f"body: Content-Encoding says zstd, but: {error}", field="body") from error


def _unzstd_unstated(decompressor: zstandard.ZstdDecompressor, body: bytes, limit: int) -> bytes:
    """A frame from a streaming compressor, which does not say how long it is."""
    frame = decompressor.decompressobj()
    plain = bytearray()
    for start in range(0, len(body), _ZSTD_CHUNK):
        plain += frame.decompress(body[start : start + _ZSTD_CHUNK])
        if len(plain) > limit:
            raise _too_large(limit)
        if frame.eof:
            if frame.unused_data or start + _ZSTD_CHUNK < len(body):
                raise BadRequest("body: bytes are left over after the zstd frame", field="body")
            return bytes(plain)
    raise BadRequest("body: the compressed data is cut off", field="body")


def _within(plain: bytes, limit: int) -> bytes:
    if len(plain) > limit:
        raise _too_large(limit)
    return plain


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"body: over {limit} bytes when plain (or {LIMIT_RATIO} times what was sent); send smaller reports",
        field="body",
    )
