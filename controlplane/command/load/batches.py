"""A file's messages put together to requests, or to parts of one, each with the identity the service knows it by.

Guarantee: the same bytes in a file always give the same requests under the same identities, so that a file which is
loaded again doubles nothing. A file that has grown is another file: load files that are complete.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import orjson

from controlplane.command.load.messages import Form, Message, messages
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports import report_bundle
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.contract.reports.packed_report import HEADER, REPORT_HEADER, SECTION, STREAM_BYTES, report_header

BATCH_BYTES = 1 << 20
"""Messages are put together up to so much."""
SLOT_WINDOWS = 360
"""Half an hour: packed reports are put together only within one, so that files of several nodes, each with its whole
history, can be sent side by side."""
READ_BYTES = 1 << 20
PERSON = b"tailwright-load"
"""Part of the identity: another number means that requests are put together in another way."""

_METRICS, _TRACES = "/v1/metrics", "/v1/traces"
_JSON = "application/json"
_SENT = {
    Form.METRICS_JSON: (_METRICS, _JSON, "resourceMetrics"),
    Form.TRACES_JSON: (_TRACES, _JSON, "resourceSpans"),
    Form.METRICS_PROTOBUF: (_METRICS, PROTOBUF, ""),
    Form.TRACES_PROTOBUF: (_TRACES, PROTOBUF, ""),
    Form.PACKED: (report_bundle.PATH, report_bundle.MEDIA_TYPE, ""),
}


@dataclass(frozen=True)
class Batch:
    """One request, or with the path of bundles a part of one: a bundle is parts' bodies one after the other.

    `number` counts a file's batches from 1; `size`: bytes of the file, decompressed; `window`: about when it begins,
    0 where nobody has looked.
    """

    stream: bytes
    number: int
    path: str
    headers: dict[str, str]
    body: bytes
    messages: int
    size: int
    place: str
    window: int = 0

    @property
    def is_part(self) -> bool:
        return self.path == report_bundle.PATH


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
    size = 0
    for message in messages(path, protobuf):
        if message.form is Form.LOGS:
            continue
        if waiting and (size + message.size > BATCH_BYTES or not _together(waiting[0], message)):
            number += 1
            yield _batch(number, stream, waiting)
            waiting, size = [], 0
        waiting.append(message)
        size += message.size
    if waiting:
        yield _batch(number + 1, stream, waiting)


def _together(first: Message, other: Message) -> bool:
    if first.form is not other.form:
        return False
    return first.form is not Form.PACKED or _window(first) // SLOT_WINDOWS == _window(other) // SLOT_WINDOWS


def _batch(number: int, stream: bytes, parts: list[Message]) -> Batch:
    form = parts[0].form
    path, kind, key = _SENT[form]
    window = 0
    if form is Form.PACKED:
        window = _window(parts[0])
        body = report_bundle.bundle(_readdressed(part, stream, number) for part in parts)
    elif key:
        body = orjson.dumps({key: [resource for part in parts for resource in part.content]})
    else:
        # Serialized messages one after the other are one message: repeated fields are appended (Protocol Buffers
        # encoding, "Last One Wins" and merging).
        body = b"".join(part.content for part in parts)
    return Batch(
        stream=stream,
        number=number,
        path=path,
        headers={"Content-Type": kind, REPORT_HEADER: report_header(stream, number)},
        body=body,
        messages=len(parts),
        size=sum(part.size for part in parts),
        place=parts[0].place,
        window=window,
    )


def _readdressed(message: Message, stream: bytes, number: int) -> bytes:
    """A packed report under the file's identity instead of its own."""
    magic, _, _, table, sections = _header(message)
    body: bytes = message.content
    return HEADER.pack(magic, stream, number, table, sections) + body[HEADER.size :]


def _window(message: Message) -> int:
    """The first window of a packed report; 0 where it has none."""
    *_, table, sections = _header(message)
    at = HEADER.size + table
    return (
        int(SECTION.unpack_from(message.content, at)[0])
        if sections and at + SECTION.size <= len(message.content)
        else 0
    )


def _header(message: Message) -> tuple[bytes, bytes, int, int, int]:
    if len(message.content) < HEADER.size:
        raise BadRequest(f"{message.place}: a packed report has at least {HEADER.size} bytes", field=message.place)
    found: tuple[bytes, bytes, int, int, int] = HEADER.unpack_from(message.content)
    return found
