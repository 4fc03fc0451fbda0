"""Files that are gzip, zstd or neither, read alike.

Guarantee: a file that ends before its compression does is an error (one of `DAMAGED`), never a shorter file.
"""

import gzip
import io
import zlib
from typing import Any

import zstandard

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
READ_BYTES = 1 << 14
BUFFER_BYTES = 1 << 20
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)


def decompressed(raw: io.BufferedReader) -> io.BufferedReader:
    """What a file holds; its first bytes say whether it is compressed."""
    head = raw.peek(len(ZSTD))
    if head.startswith(GZIP):
        plain: Any = gzip.GzipFile(fileobj=raw)
        return io.BufferedReader(plain)
    if head.startswith(ZSTD):
        return io.BufferedReader(_Zstd(raw), BUFFER_BYTES)
    return raw


class _Zstd(io.RawIOBase):
    """Frames one after the other. `zstandard`'s own reader takes a file that is cut off for one that has ended."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw = raw
        self._frame: Any = None
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            part = self._raw.read(READ_BYTES)
            if not part:
                if self._frame is not None:
                    raise EOFError("zstd data ends before the end of its frame")
                return 0
            self._take(part)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _take(self, part: bytes) -> None:
        found = []
        while part:
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            found.append(self._frame.decompress(part))
            part = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = None
        self._ready = b"".join(found)
