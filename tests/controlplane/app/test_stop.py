"""A stop under load: streams, idle connections, a slow query and a slow tick hold it up no longer than they may."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from controlplane.contract import metrics
from controlplane.contract.clock import utc_now
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.store import TelemetryStore

pytestmark = pytest.mark.slow

STUCK_S = 60
LIMIT_S = 8.0
"""The bounds add up to about two seconds; the rest is for a machine that has much else to do."""
PROGRAM = f"""
import sys, threading, time
from pathlib import Path
from fastapi import FastAPI
from controlplane.app.background import Tick
from controlplane.app.serve import server_of
from controlplane.app.settings import ServiceSettings
from controlplane.terminal.child import leave

def mount(app: FastAPI) -> None:
    def slow() -> str:
        print("slow", flush=True)
        time.sleep({STUCK_S})
        return "never"
    app.add_api_route("/slow", slow)
    app.state.service.background.ticks += (Tick("stuck", 1.0, lambda now: time.sleep({STUCK_S})),)

server = server_of(ServiceSettings(data_dir=Path(sys.argv[1]), port=0, log_level="warning"), mount)
def tell():
    server.accepting.wait()
    print(server.port, flush=True)
threading.Thread(target=tell, daemon=True).start()
server.run()
leave(0 if server.started else 1)
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as found:
        yield found
        found.kill()


def report(node: str) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    resource.resource.attributes.add(key=metrics.NODE.name).value.string_value = node
    added = resource.scope_metrics.add().metrics.add(name=metrics.TTFT.name, unit="s")
    added.exponential_histogram.aggregation_temporality = 1
    end_ns = int((utc_now() - timedelta(seconds=10)).timestamp() * 1e9)
    point = added.exponential_histogram.data_points.add(count=1, sum=0.25, scale=5)
    point.start_time_unix_nano, point.time_unix_nano = end_ns - 10**9, end_ns
    point.positive.offset = -65
    point.positive.bucket_counts.append(1)
    return request


def test_it_ends_in_time_and_keeps_what_it_acknowledged(process: subprocess.Popen[str], tmp_path: Path) -> None:
    assert process.stdout is not None
    port = int(process.stdout.readline())
    url = f"http://127.0.0.1:{port}"
    admin = {"Authorization": f"Bearer {(tmp_path / 'admin-token').read_text().strip()}"}
    began = utc_now()
    with ExitStack() as open_until_the_end, httpx.Client(base_url=url, headers=admin, timeout=30) as http:
        for node in range(20):
            sent = http.post(
                "/v1/metrics",
                content=report(f"n{node}").SerializeToString(),
                headers={"Content-Type": "application/x-protobuf"},
            )
            assert sent.status_code == 200
        streams = []
        for window in ("1m", "2m", "5m"):
            asked = {"metric": "ttft", "window": window}
            answer = open_until_the_end.enter_context(http.stream("GET", "/api/v1/stream", params=asked))
            lines = answer.iter_lines()
            assert any(line.startswith("data:") for line in lines), answer.status_code
            streams.append(lines)
        request = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
        idle = [open_until_the_end.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(20)]
        for connection in idle:
            connection.sendall(request % b"healthz")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        slow = open_until_the_end.enter_context(socket.create_connection(("127.0.0.1", port)))
        slow.sendall(request % b"slow")
        assert process.stdout.readline() == "slow\n"
        process.send_signal(signal.SIGTERM)
        signalled = time.monotonic()
        for lines in streams:
            for _ in lines:
                """To its end, which is a whole one: a connection that breaks raises."""
        for connection in idle:
            while connection.recv(65536):
                """What is left of the answer; then the end, where a reset would raise."""
        assert process.wait(STUCK_S / 2) == 0
        took_s = time.monotonic() - signalled
    assert took_s < LIMIT_S
    database = Database(f"sqlite:///{tmp_path / 'tailwright.db'}")
    store = TelemetryStore(database, utc_now)
    found = store.histograms(
        Question("ttft", Span(began - timedelta(minutes=5), utc_now() + timedelta(seconds=5)), by=["node"])
    )
    database.close()
    assert sorted(one.labels["node"] for one in found) == sorted(f"n{node}" for node in range(20))
    assert all(one.total.count == 1 for one in found)
