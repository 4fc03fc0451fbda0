"""One request body, as it lies in the spool and as it goes over the wire: compressed once, never again.

Guarantee: `decoded` gives back what was put in. OTLP is gzip-compressed, which every receiver takes; a packed report
is zstd-compressed where the package `zstandard` is installed (smaller, and quicker to read), else gzip: whoever takes
packed reports takes both.
"""

import gzip
import importlib.util
import zlib
from dataclasses import dataclass
from typing import Self

from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.contract.reports.packed_report import MEDIA_TYPE

GZIP, ZSTD = "gzip", "zstd"
HAS_ZSTD = importlib.util.find_spec("zstandard") is not None


class BodyUnreadable(Exception):
    """A body that this agent cannot decompress: damaged, or made by one that had `zstandard`."""


@dataclass(frozen=True)
class Body:
    """`content` is compressed as `encoding` says."""

    content: bytes
    media_type: str = PROTOBUF
    encoding: str = GZIP

    @classmethod
    def otlp(cls, message: bytes) -> Self:
        """A serialized OTLP request."""
        return cls(gzip.compress(message, compresslevel=3, mtime=0))

    @classmethod
    def packed(cls, report: bytes, *, with_zstd: bool = HAS_ZSTD) -> Self:
        """An encoded packed report."""
        if not with_zstd:
            return cls(gzip.compress(report, compresslevel=3, mtime=0), MEDIA_TYPE, GZIP)
        import zstandard

        return cls(zstandard.ZstdCompressor(level=3).compress(report), MEDIA_TYPE, ZSTD)

    @property
    def is_packed(self) -> bool:
        return self.media_type == MEDIA_TYPE

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Type": self.media_type, "Content-Encoding": self.encoding}

    def decoded(self) -> bytes:
        """The body uncompressed. Raises BodyUnreadable."""
        if self.encoding == GZIP:
            try:
                return gzip.decompress(self.content)
            except (OSError, EOFError, zlib.error) as error:
                raise BodyUnreadable(f"not gzip: {error}") from error
        if self.encoding != ZSTD or not HAS_ZSTD:
            raise BodyUnreadable(f"encoding {self.encoding!r}: the package zstandard is not installed")
        import zstandard

        try:
            return zstandard.ZstdDecompressor().decompress(self.content)
        except zstandard.ZstdError as error:
            raise BodyUnreadable(f"not zstd: {error}") from error
