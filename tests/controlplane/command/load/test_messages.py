"""Files of every form are read to the same messages; broken ones name the place."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from controlplane.command.load.messages import Form, messages
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.packed_report import PackedReport, encode

METRICS = {"resourceMetrics": [{"scopeMetrics": []}]}
SPANS = {"resourceSpans": [{"scopeSpans": []}, {}]}
PACKED = encode(PackedReport(stream=b"s" * 16, ordinal=7))
PROTOBUF = ExportMetricsServiceRequest(resource_metrics=[{"schema_url": "x" * 100}]).SerializeToString()


def lines(*content: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in content)


def delimited(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def read(tmp_path: Path, data: bytes, **more: Any) -> list[tuple[Form, Any]]:
    path = tmp_path / "file"
    path.write_bytes(data)
    return [(message.form, message.content) for message in messages(path, **more)]


EXPECTED = [
    (Form.METRICS_JSON, METRICS["resourceMetrics"]),
    (Form.TRACES_JSON, SPANS["resourceSpans"]),
    (Form.PACKED, PACKED),
]
LINES = lines(METRICS, SPANS, {"packed": base64.b64encode(PACKED).decode()})
MESSAGES = delimited(json.dumps(METRICS).encode(), json.dumps(SPANS).encode(), PACKED)


@pytest.mark.parametrize(
    "data",
    [
        LINES,
        b"\n".join(LINES.splitlines()),
        LINES.replace(b"\n", b"\r\n\r\n"),
        gzip.compress(LINES),
        zstd(LINES),
        zstd(LINES[:20]) + zstd(LINES[20:]),
        MESSAGES,
        gzip.compress(MESSAGES),
        zstd(MESSAGES),
        delimited(*(zstd(body) for body in (json.dumps(METRICS).encode(), json.dumps(SPANS).encode(), PACKED))),
    ],
)
def test_what_a_file_is_its_bytes_say(tmp_path: Path, data: bytes) -> None:
    assert read(tmp_path, data) == EXPECTED


def test_protobuf_is_what_it_is_said_to_be(tmp_path: Path) -> None:
    assert read(tmp_path, delimited(PROTOBUF)) == [(Form.METRICS_PROTOBUF, PROTOBUF)]
    assert read(tmp_path, delimited(zstd(PROTOBUF)), protobuf=Form.TRACES_PROTOBUF) == [
        (Form.TRACES_PROTOBUF, PROTOBUF)
    ]


def test_logs_are_told_apart_and_an_empty_file_is_empty(tmp_path: Path) -> None:
    assert [form for form, _ in read(tmp_path, lines(METRICS, {"resourceLogs": []}))] == [Form.METRICS_JSON, Form.LOGS]
    assert read(tmp_path, b"") == [] and read(tmp_path, gzip.compress(b"")) == []


def test_sizes_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (LINES, MESSAGES):
        path.write_bytes(data)
        assert sum(message.size for message in messages(path)) == len(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (LINES + b"{cut", "line 4: not JSON"),
        (lines(METRICS, {"resource_metrics": []}), "line 2: wants an object with one key"),
        (lines({**METRICS, **SPANS}), "line 1: wants an object with one key"),
        (lines({"resourceMetrics": 5}), "line 1: wants"),
        (lines({"packed": "%%"}), "line 1: packed: not base64"),
        (MESSAGES[:-1], "message 3: cut off"),
        (MESSAGES + b"\0\0", "message 4: b'\\x00\\x00' is no length"),
        (b"timestamp,latency\n1,2\n", "message 1: b'time' is no length"),
        (delimited(zstd(PACKED)[:-3]), "message 1: damaged: zstd data ends"),
        (delimited(zstd(PACKED)[:9] + b"x" * 40), "message 1: damaged"),
        (zstd(LINES)[:-3], "damaged: zstd data ends"),
        (zstd(LINES) + zstd(LINES)[:5], "damaged: zstd data ends"),
        (zstd(LINES) + b"rubbish", "damaged"),
        (gzip.compress(LINES)[:-3], "damaged"),
        (gzip.compress(LINES)[:-8] + b"\0" * 8, "damaged"),
    ],
)
def test_broken_files_name_the_place(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(BadRequest) as raised:
        read(tmp_path, data)
    assert told in raised.value.message and str(tmp_path / "file") in raised.value.message
