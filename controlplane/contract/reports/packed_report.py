"""The packed report: what one of our agents sends instead of OTLP where the service has said that it takes it.

The media type is `MEDIA_TYPE`; a service that takes it says so in the answer header `ACCEPT_HEADER` of every answer to
`POST /v1/metrics`, and an agent that has not seen that header sends OTLP. A packed report says exactly what the OTLP
request of the same report says (delta histograms on the contract's axis, delta sums, gauges), in a third of the work.

Guarantee: decode(encode(report)) == report; `decode` raises ValueError, with a message that names the field, for
anything else. A report is who it is by (stream, ordinal): a stream is one spool's life, ordinals count its reports
from 1 and are sent nearly in order: a receiver needs to remember the newest ordinal and a few hundred before it.

Layout, little-endian, columns one after the other without padding:

    magic b"TTR1", stream 16 bytes, ordinal u64, table length u32, number of sections u32
    table: JSON {"resource": {name: value}, "metrics": [[name, kind], ...], "labels": [{name: value}, ...]}
    each section: window i64, histograms u32, sums u32, gauges u32, cells u32, bytes of a cell u8
        histograms: metric u16[], labels u16[], low u16[], width u16[], zero u64[], total f64[], minimum f64[],
            maximum f64[]
        cells u8 | u16 | u32 | u64 []: the histograms' buckets, one histogram after the other, `width` of each
        sums: metric u16[], labels u16[], value f64[]
        gauges: metric u16[], labels u16[], value f64[]

`metric` and `labels` are places in the table. `window` counts `metrics.WINDOW_S` since the epoch; every point of a
section ends at the end of its window. `low` is a histogram's first position on the contract's axis.
"""

import json
import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.contract.metrics import MetricKind

MEDIA_TYPE = "application/x-tailwright-report"
ACCEPT_HEADER = "Tailwright-Accept"
"""Answer header: the packed versions that the service takes, e.g. `packed-1`."""
ACCEPT_PACKED = "packed-1"
REPORT_HEADER = "Tailwright-Report"
"""Request header `STREAM/ORDINAL/DIGEST` (stream and digest in hex): who an OTLP request of one of our agents is, as
when packed. The digest is that of the packed form; without it, that of the request's own plain body is meant."""
REMEMBERED = 960
"""Ordinals below the newest of a stream that the service can still tell apart; a report further back is refused."""
TIME_HEADER = "Tailwright-Time"
"""Answer header: the service's clock when it answered, nanoseconds since the Unix epoch."""
MAGIC = b"TTR1"
HEADER = struct.Struct("<4s16sQII")
SECTION = struct.Struct("<qIIIIB")
CELLS: dict[int, str] = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""Bytes of a cell to its `array` type code."""
MOST_PLACES = 1 << 16
STREAM_BYTES = 16
DIGEST_BYTES = 8
_STREAM_AT = len(MAGIC)


@dataclass(frozen=True)
class PackedHistogram:
    """`counts[i]` belongs to position low + i of the axis; total, minimum and maximum in the metric's unit."""

    metric: int
    labels: int
    low: int
    counts: tuple[int, ...]
    zero: int
    total: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class PackedNumber:
    metric: int
    labels: int
    value: float


@dataclass(frozen=True)
class Section:
    """One window's points."""

    window: int
    histograms: tuple[PackedHistogram, ...] = ()
    sums: tuple[PackedNumber, ...] = ()
    gauges: tuple[PackedNumber, ...] = ()


@dataclass(frozen=True)
class PackedReport:
    """`resource` and each of `labels`: attribute names on the wire to values; `metrics`: (name on the wire, kind)."""

    stream: bytes
    ordinal: int
    resource: dict[str, str] = field(default_factory=dict)
    metrics: tuple[tuple[str, MetricKind], ...] = ()
    labels: tuple[dict[str, str], ...] = ()
    sections: tuple[Section, ...] = ()


def encode(report: PackedReport) -> bytes:
    """Raises ValueError where a value does not fit its column."""
    table = json.dumps(
        {"resource": report.resource, "metrics": report.metrics, "labels": report.labels}, separators=(",", ":")
    ).encode()
    parts = [HEADER.pack(MAGIC, report.stream, report.ordinal, len(table), len(report.sections)), table]
    try:
        for section in report.sections:
            parts.extend(_section(section))
    except (OverflowError, struct.error) as error:
        raise ValueError(f"a value does not fit its column: {error}") from error
    return b"".join(parts)


def decode(body: bytes) -> PackedReport:
    """The report, for conversion to OTLP and for tests; the service reads the columns as arrays."""
    reader = _Reader(body)
    magic, stream, ordinal, table_length, sections = reader.unpack(HEADER, "header")
    if magic != MAGIC:
        raise ValueError(f"magic: {magic!r} is not {MAGIC!r}")
    resource, metrics, labels = parse_table(reader.bytes(table_length, "table"))
    found = tuple(_read_section(reader) for _ in range(sections))
    if reader.rest:
        raise ValueError(f"{reader.rest} bytes are left over after the last section")
    return PackedReport(stream, ordinal, resource, metrics, labels, found)


def parse_table(
    table: bytes,
) -> tuple[dict[str, str], tuple[tuple[str, MetricKind], ...], tuple[dict[str, str], ...]]:
    """(resource, metrics, labels) of a table. Raises ValueError."""
    try:
        content: Any = json.loads(table)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"table: not JSON: {error}") from error
    if not isinstance(content, dict) or set(content) != {"resource", "metrics", "labels"}:
        raise ValueError("table: wants an object with resource, metrics and labels")
    resource, metrics, labels = content["resource"], content["metrics"], content["labels"]
    if not isinstance(metrics, list) or not isinstance(labels, list) or max(len(metrics), len(labels)) > MOST_PLACES:
        raise ValueError(f"table: metrics and labels are lists of at most {MOST_PLACES}")
    for place, attributes in enumerate([resource, *labels]):
        if not isinstance(attributes, dict) or not all(isinstance(value, str) for value in attributes.values()):
            name = "resource" if place == 0 else f"labels {place - 1}"
            raise ValueError(f"table: {name}: wants an object of texts")
    kinds = []
    for place, entry in enumerate(metrics):
        if not isinstance(entry, list) or len(entry) != 2 or not all(isinstance(part, str) for part in entry):
            raise ValueError(f"table: metrics {place}: wants [name, kind]")
        if entry[1] not in MetricKind._value2member_map_:
            raise ValueError(f"table: metrics {place}: kind {entry[1][:40]!r} is none of {[*map(str, MetricKind)]}")
        kinds.append((entry[0], MetricKind(entry[1])))
    return resource, tuple(kinds), tuple(labels)


def digest_of(body: bytes) -> bytes:
    """What a plain body says, in short: two reports with one identity are one only if it is the same."""
    return blake2b(body, digest_size=DIGEST_BYTES).digest()


def under_stream(body: bytes, stream: bytes) -> bytes:
    """An encoded report with another stream, and all else as it is."""
    return body[:_STREAM_AT] + stream + body[_STREAM_AT + STREAM_BYTES :]


def report_header(stream: bytes, ordinal: int, digest: bytes = b"") -> str:
    """The value of `REPORT_HEADER`."""
    return f"{stream.hex()}/{ordinal}" + (f"/{digest.hex()}" if digest else "")


def parse_report_header(value: str) -> tuple[bytes, int, bytes]:
    """(stream, ordinal, digest); the digest is empty where none is stated. Raises ValueError."""
    stream, _, rest = value.partition("/")
    ordinal, stated, digest = rest.partition("/")
    try:
        found = bytes.fromhex(stream), int(ordinal), bytes.fromhex(digest)
    except ValueError:
        raise ValueError(f"{REPORT_HEADER}: {value[:80]!r} is not STREAM/ORDINAL/DIGEST") from None
    if len(found[0]) != STREAM_BYTES or not 0 < found[1] < 1 << 63:
        raise ValueError(f"{REPORT_HEADER}: the stream has {STREAM_BYTES} bytes, the ordinal is a positive int64")
    if len(found[2]) != (DIGEST_BYTES if stated else 0):
        raise ValueError(f"{REPORT_HEADER}: the digest has {DIGEST_BYTES} bytes")
    return found


def _section(section: Section) -> list[bytes]:
    cells = [count for histogram in section.histograms for count in histogram.counts]
    largest = max(cells, default=0)
    size = next((size for size in CELLS if largest < 1 << (8 * size)), 8)
    histograms = section.histograms
    return [
        SECTION.pack(section.window, len(histograms), len(section.sums), len(section.gauges), len(cells), size),
        _column("H", [histogram.metric for histogram in histograms]),
        _column("H", [histogram.labels for histogram in histograms]),
        _column("H", [histogram.low for histogram in histograms]),
        _column("H", [len(histogram.counts) for histogram in histograms]),
        _column("Q", [histogram.zero for histogram in histograms]),
        _column("d", [histogram.total for histogram in histograms]),
        _column("d", [histogram.minimum for histogram in histograms]),
        _column("d", [histogram.maximum for histogram in histograms]),
        _column(CELLS[size], cells),
        *_numbers(section.sums),
        *_numbers(section.gauges),
    ]


def _numbers(numbers: Sequence[PackedNumber]) -> list[bytes]:
    return [
        _column("H", [number.metric for number in numbers]),
        _column("H", [number.labels for number in numbers]),
        _column("d", [number.value for number in numbers]),
    ]


def _column(code: str, values: Sequence[int] | Sequence[float]) -> bytes:
    column = array(code, values)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def _read_section(reader: "_Reader") -> Section:
    window, histograms, sums, gauges, cells, size = reader.unpack(SECTION, "section")
    if size not in CELLS:
        raise ValueError(f"section: {size} bytes a cell; wants one of {[*CELLS]}")
    metric, labels, low, width = (reader.column("H", histograms, name) for name in ("metric", "labels", "low", "width"))
    zero = reader.column("Q", histograms, "zero")
    total, minimum, maximum = (reader.column("d", histograms, name) for name in ("total", "minimum", "maximum"))
    counts = reader.column(CELLS[size], cells, "cells")
    if sum(width) != cells:
        raise ValueError(f"section: widths add up to {sum(width)}, there are {cells} cells")
    found, at = [], 0
    for place in range(histograms):
        if low[place] + width[place] > AXIS_LENGTH:
            raise ValueError(f"low: histogram {place} reaches beyond the axis of {AXIS_LENGTH}")
        found.append(
            PackedHistogram(
                metric[place],
                labels[place],
                low[place],
                tuple(counts[at : at + width[place]]),
                zero[place],
                total[place],
                minimum[place],
                maximum[place],
            )
        )
        at += width[place]
    return Section(window, tuple(found), _read_numbers(reader, sums), _read_numbers(reader, gauges))


def _read_numbers(reader: "_Reader", count: int) -> tuple[PackedNumber, ...]:
    metric, labels = reader.column("H", count, "metric"), reader.column("H", count, "labels")
    values = reader.column("d", count, "value")
    return tuple(map(PackedNumber, metric, labels, values))


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def rest(self) -> int:
        return len(self._body) - self._at

    def bytes(self, length: int, what: str) -> bytes:
        if length > self.rest:
            raise ValueError(f"{what}: cut off, {length} bytes are stated and {self.rest} are there")
        self._at += length
        return self._body[self._at - length : self._at]

    def unpack(self, layout: struct.Struct, what: str) -> tuple[Any, ...]:
        return layout.unpack(self.bytes(layout.size, what))

    def column(self, code: str, length: int, what: str) -> "array[Any]":
        column = array(code)
        column.frombytes(self.bytes(length * column.itemsize, what))
        if sys.byteorder == "big":
            column.byteswap()
        return column
