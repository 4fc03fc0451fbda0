"""OTLP/HTTP bodies to protobuf messages, and answers back.

Guarantee: whatever the bytes are, the result is a message or an error of the contract that says what is wrong:
`Unsupported` (415), `TooLarge` (413), `BadRequest` (400). A decompression bomb is cut off at `LIMIT_DECODED` bytes.
"""

import zlib
from collections.abc import Mapping
from typing import TypeVar

import zstandard
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from controlplane.contract.errors import BadRequest, TooLarge, Unsupported
from controlplane.telemetry import otlp_json
from controlplane.telemetry.refusal import Refusals

LIMIT_BODY = 8 << 20
LIMIT_DECODED = 64 << 20
PROTOBUF = "application/x-protobuf"
JSON = "application/json"

M = TypeVar("M", bound=Message)


def content_type(headers: Mapping[str, str]) -> str:
    """PROTOBUF or JSON. Raises `Unsupported` for anything else."""
    stated = headers.get("content-type", "")
    kind = stated.partition(";")[0].strip().lower()
    if kind not in (PROTOBUF, JSON):
        raise Unsupported(f"Content-Type {stated!r} is not one of {PROTOBUF}, {JSON}", field="Content-Type")
    return kind


def decompress(body: bytes, encoding: str) -> bytes:
    """The body without its Content-Encoding (gzip, zstd, deflate, identity)."""
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        plain = body
    elif kind == "gzip":
        plain = _inflate(body, 16 + zlib.MAX_WBITS)
    elif kind == "deflate":
        plain = _inflate(body, zlib.MAX_WBITS)
    elif kind == "zstd":
        plain = _unzstd(body)
    else:
        raise Unsupported(
            f"Content-Encoding {encoding!r} is not one of gzip, zstd, deflate, identity", field="Content-Encoding"
        )
    if len(plain) > LIMIT_DECODED:
        raise TooLarge(f"the decompressed body is over {LIMIT_DECODED} bytes; send smaller reports", field="body")
    return plain


def decode(body: bytes, headers: Mapping[str, str], message: M, refusals: Refusals) -> M:
    """Fill `message` from an HTTP body. Single JSON points that do not fit the schema go to `refusals`."""
    kind = content_type(headers)
    plain = decompress(body, headers.get("content-encoding", ""))
    if kind == JSON:
        return otlp_json.parse(plain, message, refusals)
    try:
        message.ParseFromString(plain)
    except (DecodeError, ValueError, RecursionError) as error:
        raise BadRequest(f"body: not a protobuf {message.DESCRIPTOR.name}: {error}", field="body") from error
    return message


def encode(message: Message, kind: str) -> bytes:
    """An answer in the encoding of its request."""
    if kind == JSON:
        return json_format.MessageToJson(message, indent=None).encode()
    return message.SerializeToString()


def _inflate(body: bytes, window_bits: int) -> bytes:
    plain = bytearray()
    rest = body
    try:
        while rest and len(plain) <= LIMIT_DECODED:  # A gzip body may have several members.
            member = zlib.decompressobj(window_bits)
            plain += member.decompress(rest, LIMIT_DECODED + 1 - len(plain))
            if not member.eof and len(plain) <= LIMIT_DECODED:
                raise BadRequest("body: the compressed data is cut off", field="body")
            rest = member.unused_data
    except zlib.error as error:
        raise BadRequest(f"body: Content-Encoding says compressed, but: {error}", field="body") from error
    return bytes(plain)


def _unzstd(body: bytes) -> bytes:
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(body) as reader:
            return reader.read(LIMIT_DECODED + 1)
    except zstandard.ZstdError as error:
        raise BadRequest(f"body: Content-Encoding says zstd, but: {error}", field="body") from error
