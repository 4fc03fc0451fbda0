"""Requests made of a file: nothing lost, the same again from the same bytes."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from controlplane.command.load import batches as module
from controlplane.command.load.batches import batches, stream_of
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.packed_report import (
    REPORT_HEADER,
    PackedReport,
    Section,
    decode,
    encode,
    parse_report_header,
)
from controlplane.contract.reports.report_bundle import MEDIA_TYPE, PATH, unbundle


def metrics(name: int) -> dict[str, Any]:
    return {"resourceMetrics": [{"schemaUrl": f"m{name}"}]}


def written(tmp_path: Path, *content: Any) -> Path:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in content))
    return path


def test_lines_of_one_kind_go_together_in_order(tmp_path: Path) -> None:
    spans = {"resourceSpans": [{"schemaUrl": "s"}]}
    path = written(tmp_path, metrics(1), metrics(2), {"resourceLogs": []}, metrics(3), spans, metrics(4))
    stream = stream_of(path)
    found = list(batches(path, stream))
    assert [(one.number, one.path, one.messages) for one in found] == [
        (1, "/v1/metrics", 3),
        (2, "/v1/traces", 1),
        (3, "/v1/metrics", 1),
    ]
    assert [json.loads(one.body) for one in found] == [
        {"resourceMetrics": [metrics(name)["resourceMetrics"][0] for name in (1, 2, 3)]},
        spans,
        metrics(4),
    ]
    assert all(one.headers["Content-Type"] == "application/json" for one in found)
    assert [parse_report_header(one.headers[REPORT_HEADER]) for one in found] == [(stream, n, b"") for n in (1, 2, 3)]


def test_requests_stay_within_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, *(metrics(name) for name in range(10)))
    line = len(path.read_bytes()) // 10
    monkeypatch.setattr(module, "BATCH_BYTES", 3 * line)
    found = list(batches(path, stream_of(path)))
    assert [one.messages for one in found] == [3, 3, 3, 1]
    assert sum(one.size for one in found) == len(path.read_bytes())


def test_the_identity_is_the_content(tmp_path: Path) -> None:
    path = written(tmp_path, metrics(1))
    first = stream_of(path)
    path.rename(tmp_path / "moved")
    assert stream_of(tmp_path / "moved") == first and len(first) == 16
    assert stream_of(written(tmp_path, metrics(1), metrics(2))) != first


def packed(window: int, name: str = "a", size: int = 0) -> PackedReport:
    """A report of one empty window, with about `size` bytes."""
    resource = {"service.instance.id": name, "filling": "x" * size}
    return PackedReport(stream=b"o" * 16, ordinal=900, resource=resource, sections=(Section(window),))


def packed_file(path: Path, reports: Sequence[PackedReport]) -> Path:
    path.write_bytes(b"".join(len(body).to_bytes(4, "big") + body for body in map(encode, reports)))
    return path


def test_packed_reports_take_the_files_identity(tmp_path: Path) -> None:
    reports = [packed(5, name) for name in "ab"]
    path = written(tmp_path, *({"packed": base64.b64encode(encode(report)).decode()} for report in reports))
    stream = stream_of(path)
    (part,) = batches(path, stream)
    assert (part.path, part.headers["Content-Type"]) == (PATH, MEDIA_TYPE) and (part.window, part.messages) == (5, 2)
    found = [decode(body) for body in unbundle(part.body)]
    assert [(one.stream, one.ordinal, one.resource) for one in found] == [(stream, 1, one.resource) for one in reports]


def test_a_part_stays_within_its_size_and_half_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = [0, 1, 359, 360, 361, 719, 720, 10]
    path = packed_file(tmp_path / "node", [packed(window) for window in windows])
    stream = stream_of(path)
    assert [(one.window, one.messages) for one in batches(path, stream)] == [(0, 3), (360, 3), (720, 1), (10, 1)]
    sized = packed_file(tmp_path / "sized", [packed(0, size=1000) for _ in range(5)])
    monkeypatch.setattr(module, "BATCH_BYTES", 2500)
    assert [one.messages for one in batches(sized, stream_of(sized))] == [2, 2, 1]


def test_a_cut_packed_report_names_its_place(tmp_path: Path) -> None:
    path = written(tmp_path, metrics(1), {"packed": base64.b64encode(b"TTR1").decode()})
    with pytest.raises(BadRequest, match="line 2: a packed report has at least"):
        list(batches(path, stream_of(path)))


def test_protobuf_messages_are_one_message_together(tmp_path: Path) -> None:
    parts = [ExportMetricsServiceRequest(resource_metrics=[{"schema_url": f"m{place}"}]) for place in range(3)]
    bodies = [part.SerializeToString() for part in parts]
    path = tmp_path / "history.otlp"
    path.write_bytes(b"".join(len(body).to_bytes(4, "big") + body for body in bodies))
    (found,) = batches(path, stream_of(path))
    together = ExportMetricsServiceRequest.FromString(found.body)
    assert [one.schema_url for one in together.resource_metrics] == ["m0", "m1", "m2"] and found.messages == 3
