"""A file's messages put together to requests, each with the identity that the service knows it by.

Guarantee: the same bytes in a file always give the same requests under the same identities, so that a file which is
loaded again doubles nothing. A file that has grown is another file: load files that are complete.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import orjson

from controlplane.command.history.messages import Form, Message, messages
from controlplane.contract.errors import BadRequest
from controlplane.contract.packed_report import HEADER, MEDIA_TYPE, REPORT_HEADER, STREAM_BYTES, report_header

BATCH_BYTES = 1 << 20
"""OTLP messages are put together up to so much; a packed report is a request of its own."""
READ_BYTES = 1 << 20
PERSON = b"trimtab-load-1"
"""Part of the identity: another number means that requests are put together in another way."""

_METRICS, _TRACES = "/v1/metrics", "/v1/traces"
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_SENT = {
    Form.METRICS_JSON: (_METRICS, _JSON, "resourceMetrics"),
    Form.TRACES_JSON: (_TRACES, _JSON, "resourceSpans"),
    Form.METRICS_PROTOBUF: (_METRICS, _PROTOBUF, ""),
    Form.TRACES_PROTOBUF: (_TRACES, _PROTOBUF, ""),
    Form.PACKED: (_METRICS, MEDIA_TYPE, ""),
}


@dataclass(frozen=True)
class Batch:
    """One request. `number` counts a file's requests from 1; `size`: bytes of the file, decompressed."""

    number: int
    path: str
    headers: dict[str, str]
    body: bytes
    messages: int
    size: int
    place: str


def stream_of(path: Path) -> bytes:
    """The identity of a file: BLAKE2b of its bytes."""
    digest = blake2b(digest_size=STREAM_BYTES, person=PERSON)
    with path.open("rb") as file:
        while part := file.read(READ_BYTES):
            digest.update(part)
    return digest.digest()


def batches(path: Path, stream: bytes, protobuf: Form = Form.METRICS_PROTOBUF) -> Iterator[Batch]:
    """The requests of a file, in its order."""
    number = 0
    waiting: list[Message] = []
    for message in messages(path, protobuf):
        if message.form is Form.LOGS:
            continue
        full = sum(one.size for one in waiting) + message.size > BATCH_BYTES
        if waiting and (full or message.form is not waiting[0].form or message.form is Form.PACKED):
            number += 1
            yield _batch(number, stream, waiting)
            waiting = []
        waiting.append(message)
    if waiting:
        yield _batch(number + 1, stream, waiting)


def _batch(number: int, stream: bytes, parts: list[Message]) -> Batch:
    form = parts[0].form
    path, kind, key = _SENT[form]
    if form is Form.PACKED:
        body = _readdressed(parts[0], stream, number)
    elif key:
        body = orjson.dumps({key: [resource for part in parts for resource in part.content]})
    else:
        # Serialized messages one after the other are one message: repeated fields are appended (Protocol Buffers
        # encoding, "Last One Wins" and merging).
        body = b"".join(part.content for part in parts)
    return Batch(
        number=number,
        path=path,
        headers={"Content-Type": kind, REPORT_HEADER: report_header(stream, number)},
        body=body,
        messages=len(parts),
        size=sum(part.size for part in parts),
        place=parts[0].place,
    )


def _readdressed(message: Message, stream: bytes, number: int) -> bytes:
    """A packed report under the file's identity instead of its own."""
    body: bytes = message.content
    if len(body) < HEADER.size:
        raise BadRequest(f"{message.place}: a packed report has at least {HEADER.size} bytes", field=message.place)
    magic, _, _, table, sections = HEADER.unpack_from(body)
    return HEADER.pack(magic, stream, number, table, sections) + body[HEADER.size :]
