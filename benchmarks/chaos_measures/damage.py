"""Bytes that nobody should send: random protobuf, real messages damaged, requests that are nearly HTTP, frames."""

import gzip
import random
import struct
import zlib

import zstandard

from benchmarks.hostile.values import mutated

_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
_SHORT_WIRE = zstandard.ZstdCompressor(level=1)


def damaged(rng: random.Random, body: bytes) -> bytes:
    """A real message after an accident: bytes changed, cut off, put in, numbers in it made extreme."""
    kind = rng.randrange(6)
    if kind == 0 or not body:
        return mutated(rng, body)
    at = rng.randrange(len(body))
    if kind == 1:
        return body[:at]
    if kind == 2:
        return body[:at] + rng.randbytes(rng.randrange(1, 64)) + body[at:]
    if kind == 3:
        size = rng.choice((1, 2, 4, 8))
        extreme = (rng.choice(_EXTREMES) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        return body[:at] + extreme + body[at + size :]
    if kind == 4:
        end = rng.randrange(at, len(body)) + 1
        return body[:at] + body[end:]
    return body + body[at:]


def protobuf(rng: random.Random, depth: int = 4) -> bytes:
    """A message of any fields: well formed on the wire (but one in twenty), of no schema."""
    parts = []
    for _ in range(rng.randrange(7)):
        number, kind = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 2**29 - 1)), rng.choice((0, 1, 2, 2, 2, 2, 5))
        parts.append(_varint(number << 3 | (kind if rng.random() < 0.98 else rng.choice((3, 4, 6, 7)))))
        if kind == 0:
            parts.append(_varint(rng.choice((*_EXTREMES, rng.randrange(2**20)))))
        elif kind == 1:
            parts.append(struct.pack("<Q", rng.choice(_EXTREMES)))
        elif kind == 5:
            parts.append(rng.randbytes(4))
        else:
            inner = protobuf(rng, depth - 1) if depth and rng.random() < 0.7 else rng.randbytes(rng.randrange(20))
            said = len(inner) if rng.random() < 0.95 else rng.choice(_EXTREMES)
            parts.append(_varint(said) + inner)
    return b"".join(parts)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def encoded(rng: random.Random, body: bytes) -> tuple[bytes, str]:
    """The body in a content coding, and its name: mostly the right one, of whole bytes."""
    coding = rng.choice(("", "", "gzip", "zstd", "zstd", "deflate", "identity", "br", "gzip, gzip"))
    if coding == "gzip":
        body = gzip.compress(body, 1)
    elif coding == "zstd":
        body = _SHORT_WIRE.compress(body)
    elif coding == "deflate":
        body = zlib.compress(body, 1)
    return (damaged(rng, body) if coding and rng.random() < 0.15 else body), coding


_METHODS: tuple[bytes, ...] = (
    b"GET",
    b"GET",
    b"POST",
    b"POST",
    b"PUT",
    b"HEAD",
    b"OPTIONS",
    b"PATCH",
    b"TRACE",
    b"PRI",
    b"get",
    b"G\x00T",
)
_METHODS += (b"X" * 300, b"")
_VERSIONS = (b"HTTP/1.1",) * 40 + (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.10", b"HTTP/", b"", b"ICY/1.1")
_ENDS = (b"\r\n",) * 40 + (b"\n", b"\r", b"\r\r\n", b"\x00\r\n")
_HEADERS = (
    *(b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 5, 5", b"Content-Length: 0x5"),
    *(b"Content-Length: 99999999999999999999", b"Content-Length: +5", b"Content-Length: 1000000000"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked"),
    *(b"Transfer-Encoding: identity", b"Transfer-Encoding : chunked", b" Transfer-Encoding: chunked"),
    *(b"Host: 127.0.0.1", b"Host: evil.example", b"Host:", b"Host: [::1", b"Host: a b", b"Expect: 100-continue"),
    *(b"Expect: 200-ok", b"Connection: close", b"Connection: upgrade", b"Connection: keep-alive, close"),
    *(b"Upgrade: websocket", b"Upgrade: h2c", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 99"),
    *(b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", b"Sec-WebSocket-Key: x", b'Sec-WebSocket-Extensions: a;b="'),
    *(b"Range: bytes=0-", b"Range: bytes=9999999999999-1", b"If-None-Match: *", b"Accept: */*;q=nan"),
    *(b"Accept-Encoding: gzip;q=\xff", b"Content-Type: multipart/form-data", b"Content-Type: application/json"),
    *(b"Content-Encoding: gzip", b"Cookie: a=\xff\x00", b"Cookie: " + b"a=b;" * 500, b"X" * 9000 + b": 1"),
    *(b"X: " + b"y" * 70_000, b"X-Forwarded-For: ::::, \xff", b'Forwarded: for="', b": no name", b"no colon"),
    *(b"Authorization: Bearer \xff", b"Authorization: Basic Og==", b"X: 1\r\n folded", b"X: \x00"),
)
_BODIES: tuple[bytes, ...] = (
    b"",
    b"hello",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"5\r\nhel",
    b"-1\r\nx\r\n",
    b'5;x="\r\nhello\r\n0\r\n',
)
_BODIES += (b"0\r\nTrailer: x\r\n\r\n", b"{", b"[" * 3000, b"\x00" * 64, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
_OTHERS = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\r\n" * 50,
    b"\x00" * 99,
)


def nearly_http(rng: random.Random, paths: list[str]) -> bytes:
    """What a broken or hostile client writes to a port where HTTP is spoken."""
    if rng.random() < 0.05:
        return rng.choice((*_OTHERS, rng.randbytes(rng.randrange(1, 2000))))
    path = rng.choice(paths).encode()
    if rng.random() < 0.3:
        path = rng.choice(
            (path + b"?" + rng.randbytes(9), b"*", b"//" + path, b"http://[", path + b"/../" * 40, b"/%", b"")
        )
        path = rng.choice((path, b"/" + b"a" * 70_000 if rng.random() < 0.1 else path, path.replace(b"/", b"/\xff")))
    end = rng.choice(_ENDS)
    lines = [b" ".join((rng.choice(_METHODS), path, rng.choice(_VERSIONS)))]
    if rng.random() < 0.9:
        lines.append(b"Host: 127.0.0.1")
    lines += rng.sample(_HEADERS, rng.randrange(4))
    if rng.random() < 0.01:
        lines += [b"X-%d: y" % number for number in range(rng.choice((99, 101, 3000)))]
    sent = end.join(lines) + end * 2 + rng.choice(_BODIES)
    return damaged(rng, sent) if rng.random() < 0.3 else sent


def frame(payload: bytes, first: int = 0x82) -> bytes:
    """A client's frame of RFC 6455, masked with zeros; `first`: end mark and opcode, a whole binary message."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", first, 0x80 | size)
    elif size < 2**16:
        head = struct.pack("!BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, size)
    return head + bytes(4) + payload


def nearly_frames(rng: random.Random, payload: bytes) -> bytes:
    """Frames that break the protocol, or nearly."""
    kind = rng.randrange(7)
    if kind == 0:
        return frame(payload, rng.choice((0x02, 0x80, 0x00)))  # Begun and never ended, ended and never begun.
    if kind == 1:
        return frame(payload, rng.choice((0x81, 0x83, 0x8B, 0xC2, 0xF2)))  # Text, reserved opcodes and bits.
    if kind == 2:
        return frame(payload[: rng.choice((1, 125, 200))], rng.choice((0x88, 0x89, 0x8A, 0x09)))  # Control frames.
    if kind == 3:
        return struct.pack("!BBQ", 0x82, 0xFF, rng.choice((2**63 - 1, 2**63, 2**40, 2**24))) + bytes(4) + payload
    if kind == 4:
        return struct.pack("!BB", 0x82, len(payload[:100])) + payload[:100]  # Not masked.
    if kind == 5:
        halves = payload[: len(payload) // 2], payload[len(payload) // 2 :]
        return frame(halves[0], 0x02) + frame(b"ping", 0x89) + frame(halves[1], 0x80)  # Right, in two parts.
    return damaged(rng, frame(payload))
