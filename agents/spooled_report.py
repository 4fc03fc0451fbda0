"""One report as it lies in the spool: a header line, then both bodies, already gzip-compressed.

Guarantee: a file that `decode` accepts is what `encode` was given, byte for byte (BLAKE2b checksum).
"""

import json
from dataclasses import dataclass
from hashlib import blake2b

from agents.backend import Position

_FORMAT = "trimtab-report-1"


class SpoolCorrupt(Exception):
    """A spool file that is not what was written: a damaged disk, or a foreign file."""


@dataclass(frozen=True)
class SpooledReport:
    """`metrics` and `traces` are gzip-compressed OTLP requests; `traces` is empty when no request finished."""

    metrics: bytes
    traces: bytes
    position: Position


def encode(report: SpooledReport) -> tuple[bytes, bytes, bytes]:
    header = {
        "format": _FORMAT,
        "boot": report.position.boot,
        "seq": report.position.seq,
        "metrics_bytes": len(report.metrics),
        "traces_bytes": len(report.traces),
        "checksum": _checksum(report.metrics, report.traces),
    }
    return json.dumps(header).encode() + b"\n", report.metrics, report.traces


def decode(content: bytes) -> SpooledReport:
    """Raises SpoolCorrupt."""
    line, _, bodies = content.partition(b"\n")
    try:
        header = json.loads(line)
        if header["format"] != _FORMAT:
            raise SpoolCorrupt(f"format {header['format']!r} is not {_FORMAT!r}")
        cut, length = int(header["metrics_bytes"]), int(header["metrics_bytes"]) + int(header["traces_bytes"])
        report = SpooledReport(bodies[:cut], bodies[cut:], Position(str(header["boot"]), int(header["seq"])))
        checksum = header["checksum"]
    except (ValueError, KeyError, TypeError) as error:
        raise SpoolCorrupt(f"unreadable header: {error}") from error
    if len(bodies) != length or checksum != _checksum(report.metrics, report.traces):
        raise SpoolCorrupt("the checksum does not fit the content")
    return report


def _checksum(metrics: bytes, traces: bytes) -> str:
    return blake2b(metrics + traces, digest_size=16).hexdigest()
