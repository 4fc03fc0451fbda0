"""A spool file is read as it was written, or not at all; those of an earlier agent are still read."""

import gzip
import json
from dataclasses import replace
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.agent.delivery import spooled_report
from agents.agent.delivery.spooled_report import SpoolCorrupt, SpooledReport
from agents.agent.reports.body import Body
from agents.backends.base import Position
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import digest_of, parse_report_header

STREAM = bytes(range(16))
REPORT = SpooledReport(Body.packed(b"packed"), Body.otlp(b"spans"), Position("boot", 7), STREAM, 12, dropped=3)


def written(report: SpooledReport) -> bytes:
    return b"".join(spooled_report.encode(report))


@pytest.mark.parametrize("traces", [None, Body.otlp(b"spans")])
@pytest.mark.parametrize("metrics", [Body.otlp(b"m"), Body.packed(b"m"), Body.packed(b"m", with_zstd=False)])
def test_what_was_written_is_read(metrics: Body, traces: Body | None) -> None:
    report = SpooledReport(metrics, traces, Position("boot", 7), STREAM, 12, 3)
    assert spooled_report.decode(written(report)) == report
    assert written(report) == written(report)


def test_its_identity_is_the_header_that_the_service_reads() -> None:
    assert REPORT.identity is not None
    assert parse_report_header(REPORT.identity) == (STREAM, 12, digest_of(b"packed"))
    of_otlp = replace(REPORT, metrics=Body.otlp(b"m"))
    assert of_otlp.identity is not None and parse_report_header(of_otlp.identity) == (STREAM, 12, b"")


@pytest.mark.parametrize("zstd", [True, False])
def test_a_renewed_report_says_the_same_under_a_name_that_follows_from_it(zstd: bool) -> None:
    packed = packed_report.PackedReport(STREAM, 12, {"a": "b"})
    report = replace(REPORT, metrics=Body.packed(packed_report.encode(packed), with_zstd=zstd))
    again, other = spooled_report.renewed(report), spooled_report.renewed(replace(report, ordinal=13))
    assert again == spooled_report.renewed(report)
    assert len({again.stream, other.stream, spooled_report.renewed(again).stream, STREAM}) == 4
    assert packed_report.decode(again.metrics.decoded()) == replace(packed, stream=again.stream)
    assert replace(again, stream=STREAM, metrics=report.metrics) == report
    assert (again.metrics.encoding, again.metrics.media_type) == (report.metrics.encoding, report.metrics.media_type)


def test_a_renewed_report_of_otlp_has_the_same_body() -> None:
    report = replace(REPORT, metrics=Body.otlp(b"m"))
    assert replace(spooled_report.renewed(report), stream=STREAM) == report
    other = replace(report, metrics=Body.otlp(b"n"))
    assert spooled_report.renewed(report).stream != spooled_report.renewed(other).stream


@given(st.integers(0, len(written(REPORT)) - 1), st.integers(1, 255))
def test_no_damaged_byte_goes_unseen(place: int, flip: int) -> None:
    content = bytearray(written(REPORT))
    content[place] ^= flip
    try:
        found = spooled_report.decode(bytes(content))
    except SpoolCorrupt:
        return
    # JSON allows some bytes to be others without meaning anything else: white space, and the case of hex digits.
    assert found == REPORT


@given(st.integers(0, len(written(REPORT)) - 1))
def test_no_cut_goes_unseen(length: int) -> None:
    with pytest.raises(SpoolCorrupt):
        spooled_report.decode(written(REPORT)[:length])


def earlier(metrics: bytes, traces: bytes) -> bytes:
    """A file as the first version wrote it."""
    header = {
        "format": "tailwright-report-1",
        "boot": "boot",
        "seq": 7,
        "metrics_bytes": len(metrics),
        "traces_bytes": len(traces),
        "checksum": blake2b(metrics + traces, digest_size=16).hexdigest(),
    }
    return json.dumps(header).encode() + b"\n" + metrics + traces


def test_a_file_of_an_earlier_agent_is_read_and_has_no_identity() -> None:
    metrics, traces = gzip.compress(b"m"), gzip.compress(b"t")
    report = spooled_report.decode(earlier(metrics, traces))
    assert report.traces is not None
    assert (report.metrics.decoded(), report.traces.decoded(), report.position) == (b"m", b"t", Position("boot", 7))
    assert report.identity is None and not report.metrics.is_packed
    assert report.metrics.headers == {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    assert spooled_report.decode(earlier(metrics, b"")).traces is None


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b[:-1] + b"x"])
def test_a_damaged_file_of_an_earlier_agent_is_told(damage) -> None:
    with pytest.raises(SpoolCorrupt):
        spooled_report.decode(damage(earlier(gzip.compress(b"m"), gzip.compress(b"t"))))


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"[]\n", b"{}\n", b'"x"\n', b'{"format": "tailwright-report-9"}\n', b"\xff\n"]
)
def test_a_foreign_file_is_told(content: bytes) -> None:
    with pytest.raises(SpoolCorrupt):
        spooled_report.decode(content)
