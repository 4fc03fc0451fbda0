"""zstd level 1, one context per thread: a context must not be shared between threads, and is costly to make."""

import threading

import zstandard

CompressionError = zstandard.ZstdError
_local = threading.local()


def compress(data: bytes) -> bytes:
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(level=1)
    compressed: bytes = _local.compressor.compress(data)
    return compressed


def decompress(data: bytes | memoryview) -> bytes:
    """Raises `CompressionError`."""
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    plain: bytes = _local.decompressor.decompress(data)
    return plain
