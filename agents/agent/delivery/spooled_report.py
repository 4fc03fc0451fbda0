"""One report as it lies in the spool: a header line, then its bodies, compressed as they go over the wire.

Guarantee: a file that `decode` accepts is what `encode` was given, byte for byte: the checksum (BLAKE2b) is over the
header and both bodies. So a report that is sent again is the same bytes under the same identity, and one whose file was
damaged is never sent at all.

Format 2 states each body's content type and encoding, and who the report is: the stream and the ordinal that the spool
gave it, which stay its own when the spool begins another stream. Format 1, of earlier agents, is still read: two
gzip-compressed OTLP requests that say who they are by their points alone. An earlier agent does not read format 2: it
sets such a file aside in `refused/`, where a later one can be given it again.
"""

import json
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from agents.agent.reports.body import ZSTD, Body
from agents.backends.base import Position
from controlplane.contract.reports.packed_report import STREAM_BYTES, digest_of, report_header, under_stream

FORMAT_1, FORMAT_2 = "tailwright-report-1", "tailwright-report-2"


class SpoolCorrupt(Exception):
    """A spool file that is not what was written: a damaged disk, or a foreign file."""


@dataclass(frozen=True)
class SpooledReport:
    """`traces` is None when no request finished. `dropped`: how many lost reports this one tells of.

    `stream` is empty in format 1, whose reports have no identity but their points.
    """

    metrics: Body
    traces: Body | None
    position: Position
    stream: bytes = b""
    ordinal: int = 0
    dropped: int = 0

    @property
    def identity(self) -> str | None:
        """What goes into the header `Tailwright-Report`. Raises BodyUnreadable."""
        digest = digest_of(self.metrics.decoded()) if self.metrics.is_packed else b""
        return report_header(self.stream, self.ordinal, digest) if self.stream else None


def renewed(report: SpooledReport) -> SpooledReport:
    """The same report in a stream of its own, which follows from who it was and what it says. Raises BodyUnreadable."""
    metrics, said = report.metrics, report.metrics.decoded()
    who = report.stream + report.ordinal.to_bytes(8, "little")
    stream = blake2b(who + said, digest_size=STREAM_BYTES, person=b"renewed").digest()
    if metrics.is_packed:
        metrics = Body.packed(under_stream(said, stream), with_zstd=metrics.encoding == ZSTD)
    return replace(report, stream=stream, metrics=metrics)


def encode(report: SpooledReport) -> tuple[bytes, bytes, bytes]:
    """The file, in parts."""
    traces = report.traces
    header: dict[str, Any] = {
        "format": FORMAT_2,
        "stream": report.stream.hex(),
        "ordinal": report.ordinal,
        "dropped": report.dropped,
        "boot": report.position.boot,
        "seq": report.position.seq,
        "metrics": _described(report.metrics),
        "traces": None if traces is None else _described(traces),
    }
    bodies = report.metrics.content, b"" if traces is None else traces.content
    header["checksum"] = _checksum(_line(header), *bodies)
    return _line(header) + b"\n", *bodies


def decode(content: bytes) -> SpooledReport:
    """Raises SpoolCorrupt."""
    line, _, rest = content.partition(b"\n")
    try:
        header: dict[str, Any] = json.loads(line)
        if header["format"] == FORMAT_1:
            return _decode_1(header, rest)
        if header["format"] != FORMAT_2:
            raise SpoolCorrupt(f"format {header['format']!r} is neither {FORMAT_2!r} nor {FORMAT_1!r}")
        checksum = header.pop("checksum")
        if checksum != _checksum(_line(header), rest):
            raise SpoolCorrupt("the checksum does not fit the content")
        cut, traces = int(header["metrics"]["bytes"]), header["traces"]
        if cut + (0 if traces is None else int(traces["bytes"])) != len(rest):
            raise SpoolCorrupt("the bodies are not as long as the header says")
        stream = bytes.fromhex(header["stream"])
        if len(stream) != STREAM_BYTES:
            raise SpoolCorrupt(f"a stream has {STREAM_BYTES} bytes, this one {len(stream)}")
        return SpooledReport(
            Body(rest[:cut], str(header["metrics"]["type"]), str(header["metrics"]["encoding"])),
            None if traces is None else Body(rest[cut:], str(traces["type"]), str(traces["encoding"])),
            Position(str(header["boot"]), int(header["seq"])),
            stream,
            int(header["ordinal"]),
            int(header["dropped"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SpoolCorrupt(f"unreadable header: {error}") from error


def _decode_1(header: dict[str, Any], rest: bytes) -> SpooledReport:
    cut, length = int(header["metrics_bytes"]), int(header["metrics_bytes"]) + int(header["traces_bytes"])
    if len(rest) != length or header["checksum"] != _checksum(rest):
        raise SpoolCorrupt("the checksum does not fit the content")
    traces = Body(rest[cut:]) if rest[cut:] else None
    return SpooledReport(Body(rest[:cut]), traces, Position(str(header["boot"]), int(header["seq"])))


def _described(body: Body) -> dict[str, Any]:
    return {"type": body.media_type, "encoding": body.encoding, "bytes": len(body.content)}


def _line(header: dict[str, Any]) -> bytes:
    return json.dumps(header).encode()


def _checksum(*parts: bytes) -> str:
    return blake2b(b"".join(parts), digest_size=16).hexdigest()
