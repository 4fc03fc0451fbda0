"""The messages of a file: OTLP or packed reports, as JSON lines or length-delimited, compressed or not.

What a file is, its bytes say, not its name: gzip and zstd are undone; then it is JSON lines when it begins with "{",
else messages with their length before each (four bytes, big-endian), as the OpenTelemetry collector's file exporter
writes `format: proto`. Each such message may be zstd by itself (that exporter's older way to compress), and may be JSON
too.

A JSON line is OTLP (`resourceMetrics` or `resourceSpans`) or `{"packed": BASE64}`, a packed report; a length-delimited
message is OTLP protobuf, OTLP JSON, or a packed report.

Guarantee: a file that is none of these, or ends within a message, raises `BadRequest` with the file and the place; no
message is passed over but logs (`resourceLogs`), which are counted.
"""

import base64
import binascii
import io
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import orjson

from controlplane.command.load.compressed import DAMAGED, ZSTD, decompressed
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.packed_report import MAGIC

LENGTH_BYTES = 4
LARGEST = 64 << 20
"""Of one message: nothing that the service would take is larger."""


class Form(StrEnum):
    """How a message is sent."""

    METRICS_JSON = "metrics_json"
    TRACES_JSON = "traces_json"
    METRICS_PROTOBUF = "metrics_protobuf"
    TRACES_PROTOBUF = "traces_protobuf"
    PACKED = "packed"
    LOGS = "logs"  # Not sent: the service keeps no logs.


@dataclass(frozen=True)
class Message:
    """One message. `content`: the resources of OTLP JSON, the bytes of everything else; `size`: bytes it took."""

    form: Form
    content: Any
    size: int
    place: str


def messages(path: Path, protobuf: Form = Form.METRICS_PROTOBUF) -> Iterator[Message]:
    """All messages of a file in order; `protobuf`: what its OTLP protobuf messages are, which they do not tell."""
    try:
        with path.open("rb") as raw:
            stream = decompressed(raw)
            if stream.peek(1)[:1] in (b"{", b""):
                yield from _lines(stream, path)
            else:
                yield from _delimited(stream, path, protobuf)
    except DAMAGED as error:
        raise BadRequest(f"{path}: damaged: {error}", field=str(path)) from error


def _lines(stream: IO[bytes], path: Path) -> Iterator[Message]:
    number = 0
    while line := stream.readline(LARGEST + 1):
        number += 1
        place = f"{path}: line {number}"
        if len(line) > LARGEST:
            raise BadRequest(f"{place}: over {LARGEST} bytes", field=place)
        if line.strip():
            yield _json(line, place)


def _delimited(stream: IO[bytes], path: Path, protobuf: Form) -> Iterator[Message]:
    number = 0
    while prefix := stream.read(LENGTH_BYTES):
        number += 1
        place = f"{path}: message {number}"
        length = int.from_bytes(prefix, "big")
        if len(prefix) < LENGTH_BYTES or not 0 < length <= LARGEST:
            raise BadRequest(
                f"{place}: {prefix!r} is no length of a message; is the file neither JSON lines nor length-delimited?",
                field=place,
            )
        body = stream.read(length)
        if len(body) < length:
            raise BadRequest(f"{place}: cut off, {length} bytes are stated and {len(body)} are there", field=place)
        size = LENGTH_BYTES + length
        if body.startswith(ZSTD):
            body = _inflated(body, place)
        if body.startswith(MAGIC):
            yield Message(Form.PACKED, body, size, place)
        elif body.startswith(b"{"):
            yield _json(body, place, size)
        else:
            yield Message(protobuf, body, size, place)


def _inflated(body: bytes, place: str) -> bytes:
    try:
        found = decompressed(io.BufferedReader(io.BytesIO(body))).read(LARGEST + 1)
    except DAMAGED as error:
        raise BadRequest(f"{place}: damaged: {error}", field=place) from error
    if len(found) > LARGEST:
        raise BadRequest(f"{place}: over {LARGEST} bytes", field=place)
    return found


def _json(line: bytes, place: str, size: int | None = None) -> Message:
    size = len(line) if size is None else size
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"{place}: not JSON: {error}", field=place) from error
    keys = set(content) if isinstance(content, dict) else set()
    for key, form in (("resourceMetrics", Form.METRICS_JSON), ("resourceSpans", Form.TRACES_JSON)):
        if keys == {key} and isinstance(content[key], list):
            return Message(form, content[key], size, place)
    if keys == {"resourceLogs"}:
        return Message(Form.LOGS, None, size, place)
    if keys == {"packed"} and isinstance(content["packed"], str):
        try:
            return Message(Form.PACKED, base64.b64decode(content["packed"], validate=True), size, place)
        except binascii.Error as error:
            raise BadRequest(f"{place}: packed: not base64: {error}", field=place) from error
    raise BadRequest(
        f"{place}: wants an object with one key, resourceMetrics, resourceSpans or packed; has {sorted(keys)[:5]}",
        field=place,
    )
