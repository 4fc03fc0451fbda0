"""Bodies without their Content-Encoding: the same bytes, or an error that says what is wrong."""

import gzip
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadRequest, TooLarge, Unsupported
from controlplane.telemetry.journal.content_encoding import FREE_BYTES, LIMIT_DECODED, LIMIT_RATIO, decompress


def streamed(plain: bytes) -> bytes:
    """A zstd frame that does not say how long it is."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(plain) + stream.flush()


COMPRESSORS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "none": ("", bytes),
    "identity": ("Identity", bytes),
    "gzip": (" GZIP ", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "zstd": ("zstd", zstandard.compress),
    "zstd, streamed": ("zstd", streamed),
}
COMPRESSED = [name for name in COMPRESSORS if name not in ("none", "identity")]
every = pytest.mark.parametrize("name", COMPRESSORS)
every_compressed = pytest.mark.parametrize("name", COMPRESSED)


@every
@given(plain=st.binary(max_size=3000) | st.integers(0, FREE_BYTES // 4).map(bytes))
def test_round_trip(name: str, plain: bytes) -> None:
    encoding, compress = COMPRESSORS[name]
    assert decompress(compress(plain), encoding) == plain


@every_compressed
def test_cut_off(name: str) -> None:
    encoding, compress = COMPRESSORS[name]
    body = compress(bytes(range(256)) * 4)
    for end in range(len(body)):
        with pytest.raises(BadRequest):
            decompress(body[:end], encoding)


@every
def test_size(name: str) -> None:
    encoding, compress = COMPRESSORS[name]
    incompressible = b"".join(zlib.crc32(bytes([i & 255, i >> 8 & 255, i >> 16])).to_bytes(4) for i in range(40_000))
    body = compress(incompressible)
    assert decompress(body, encoding, len(incompressible)) == incompressible
    with pytest.raises(TooLarge):
        decompress(body, encoding, len(incompressible) - 1)


@every_compressed
def test_ratio(name: str) -> None:
    encoding, compress = COMPRESSORS[name]
    assert decompress(compress(bytes(FREE_BYTES)), encoding) == bytes(FREE_BYTES)
    bomb = compress(bytes(LIMIT_DECODED))
    assert len(bomb) * LIMIT_RATIO < LIMIT_DECODED
    with pytest.raises(TooLarge):
        decompress(bomb, encoding)


def test_gzip_members_one_after_the_other() -> None:
    assert decompress(gzip.compress(b"ab") + gzip.compress(b"") + gzip.compress(b"cd"), "gzip") == b"abcd"
    with pytest.raises(BadRequest, match="members"):
        decompress(gzip.compress(b"x") * 100, "gzip")


@pytest.mark.parametrize("compress", [zstandard.compress, streamed])
def test_bytes_after_a_zstd_frame(compress: Callable[[bytes], bytes]) -> None:
    for rest in (b"x", b"x" * 1000):
        with pytest.raises(BadRequest):
            decompress(compress(b"abc") + rest, "zstd")


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "x" * 5000, "\0"])
def test_other_encodings(encoding: str) -> None:
    with pytest.raises(Unsupported) as raised:
        decompress(b"", encoding)
    assert len(raised.value.message) < 300
