"""`tailwright load` against a real service: history of any age, counted once however often it is loaded."""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from typer.testing import CliRunner

from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.client import Client
from controlplane.command.main import app as command
from controlplane.contract import metrics
from controlplane.contract.histogram import axis_position
from controlplane.contract.metrics import WINDOW_S, MetricKind
from controlplane.contract.reports.packed_report import PackedHistogram, PackedNumber, PackedReport, Section, encode

NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
"""The service's clock is the real one here; history is stated from the last full hour backwards."""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def app(data_dir: Path) -> FastAPI:
    return create_app(ServiceSettings(data_dir=data_dir, log_level="error"))


@pytest.fixture
def url(app: FastAPI) -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(30)


def loaded(url: str, data_dir: Path, *files: Path) -> str:
    answer = CliRunner().invoke(
        command, ["load", *map(str, files), "--server", url, "--token-file", str(data_dir / "admin-token")]
    )
    assert answer.exit_code == 0, answer.output
    return answer.output


def packed(node: str, start: datetime, windows: int) -> dict[str, str]:
    """A node's report of many windows: two values of ttft and ten requests in each."""
    first = int(start.timestamp() // WINDOW_S)
    histogram = PackedHistogram(0, 0, axis_position(0.25), (2,), 0, 0.5, 0.25, 0.25)
    report = PackedReport(
        stream=b"-" * 16,
        ordinal=1,
        resource={metrics.NODE.name: node, metrics.POOL.name: "chat"},
        metrics=((metrics.TTFT.name, MetricKind.HISTOGRAM), (metrics.REQUESTS.name, MetricKind.SUM)),
        labels=({metrics.PROMPT_BUCKET.name: "<=128"},),
        sections=tuple(Section(first + i, (histogram,), (PackedNumber(1, 0, 10.0),)) for i in range(windows)),
    )
    return {"packed": base64.b64encode(encode(report)).decode()}


def otlp_line(node: str, start: datetime) -> dict[str, object]:
    """What a collector's file exporter writes for one report of ttft."""
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    for name, value in ((metrics.NODE.name, node), (metrics.POOL.name, "chat")):
        attribute = KeyValue(key=name)
        attribute.value.string_value = value
        resource.resource.attributes.append(attribute)
    data = resource.scope_metrics.add().metrics.add(name=metrics.TTFT.name, unit="s").exponential_histogram
    data.aggregation_temporality = otlp.AGGREGATION_TEMPORALITY_DELTA
    point = data.data_points.add(scale=5, count=1, sum=0.5, min=0.5, max=0.5)
    point.start_time_unix_nano = int(start.timestamp()) * 10**9
    point.time_unix_nano = point.start_time_unix_nano + 5 * 10**9
    point.positive.offset = -33
    point.positive.bucket_counts.append(1)
    return MessageToDict(request)


def written(path: Path, lines: list[dict[str, object]] | list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def count(client: Client, start: datetime, seconds: float, **asked: str) -> int:
    answer = client.quantiles("ttft", start=start, end=start + timedelta(seconds=seconds), **asked)
    return sum(series.count for series in answer.series)


@pytest.mark.slow
@pytest.mark.parametrize("age", [timedelta(hours=2), timedelta(days=3), timedelta(days=100), timedelta(days=600)])
def test_history_of_any_age_is_kept_once(
    app: FastAPI, url: str, data_dir: Path, tmp_path: Path, age: timedelta
) -> None:
    start = NOW - age
    file = written(tmp_path / "day.jsonl", [packed(f"n{place}", start, 720) for place in range(5)])
    with Client(url, (data_dir / "admin-token").read_text().strip()) as client:
        for _ in range(2):
            output = loaded(url, data_dir, file)
            assert "day.jsonl: 5 messages in " in output
            assert count(client, start, 3600) == 5 * 720 * 2
            assert count(client, start, 3600, node="n3") == 720 * 2
            (total,) = client.scalars("requests", start=start, end=start + timedelta(hours=1)).series
            assert total.value == 5 * 720 * 10
            # And so when it has been folded, into the levels that still keep windows of its age, and pruned.
            for _ in range(3):
                app.state.service.telemetry.tick(datetime.now(UTC))
        assert count(client, start - timedelta(hours=1), 3600) == count(client, start + timedelta(hours=1), 3600) == 0


def test_lines_of_a_collector_and_another_file_of_the_same_time(url: str, data_dir: Path, tmp_path: Path) -> None:
    start = NOW - timedelta(hours=1)
    lines = [otlp_line("n1", start + timedelta(seconds=5 * place)) for place in range(50)]
    first, second = written(tmp_path / "a.jsonl", lines[:30]), written(tmp_path / "b.jsonl", lines[30:])
    with Client(url, (data_dir / "admin-token").read_text().strip()) as client:
        loaded(url, data_dir, first, second)
        assert count(client, start, 3600) == 50
        loaded(url, data_dir, second, first)
        assert count(client, start, 3600) == 50


def test_what_is_too_old_is_told_and_the_status_says_so(url: str, data_dir: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "old.jsonl", [otlp_line("n1", NOW - timedelta(days=4000))])
    answer = CliRunner().invoke(
        command, ["load", str(file), "--server", url, "--token-file", str(data_dir / "admin-token")]
    )
    assert answer.exit_code == 1 and "1 points or spans were refused" in answer.output
    assert "older than" in answer.output


def test_programs_are_told_of_each_file(url: str, data_dir: Path, tmp_path: Path) -> None:
    good = written(tmp_path / "good.jsonl", [otlp_line("n1", NOW - timedelta(hours=1))])
    old = written(tmp_path / "old.jsonl", [otlp_line("n1", NOW - timedelta(days=4000))])
    words = ["load", str(good), str(old), "--json", "--server", url, "--token-file", str(data_dir / "admin-token")]
    answer = CliRunner().invoke(command, words)
    told = json.loads(answer.stdout)
    assert answer.exit_code == 1 and told["refused"] == 1
    first, second = told["files"]
    assert (first["file"], first["messages"], first["known"], first["reasons"]) == (str(good), 1, 0, {})
    assert second["refused"] == 1 and "older than" in next(iter(second["reasons"]))


def test_a_file_that_is_none_is_one_line(url: str, data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(b"\x89PNG....")
    answer = CliRunner().invoke(
        command, ["load", str(file), "--server", url, "--token-file", str(data_dir / "admin-token")]
    )
    assert answer.exit_code == 1 and isinstance(answer.exception, SystemExit)
    assert "message 1: " in answer.output
