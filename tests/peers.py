"""Real counterparts on free loopback ports: a whole service in a thread, a Prometheus process, promtool."""

import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from controlplane.alerts.evaluator import LAG_S
from controlplane.app.serve import Server, server_of
from controlplane.app.settings import ServiceSettings
from controlplane.contract import metrics
from controlplane.contract.clock import utc_now
from controlplane.contract.metrics import WINDOW_S
from tests.processes import wait_for

LIMIT_S = 60.0


@dataclass
class Service:
    """A running service. `http` speaks with the admin's token."""

    url: str
    token: str
    http: httpx.Client


@contextmanager
def service(data_dir: Path, **settings: Any) -> Iterator[Service]:
    """A whole service, its background work included, under uvicorn in a thread."""
    server: Server = server_of(ServiceSettings(data_dir=data_dir, port=0, log_level="error", **settings))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert server.accepting.wait(LIMIT_S)
        url = f"http://127.0.0.1:{server.port}"
        token = (data_dir / "admin-token").read_text().strip()
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
            yield Service(url, token, http)
    finally:
        server.handle_exit(signal.SIGTERM, None)
        thread.join(LIMIT_S)


def send(running: Service, pool: str, age_s: float = 2.0) -> None:
    """Request latencies of two nodes, as of `age_s` ago."""
    now_ns = int((utc_now() - timedelta(seconds=age_s)).timestamp() * 1e9)
    request = ExportMetricsServiceRequest()
    for node in ("a", "b"):
        found = request.resource_metrics.add()
        for name, value in ((metrics.NODE.name, node), (metrics.POOL.name, pool)):
            found.resource.attributes.add(key=name).value.string_value = value
        for metric in (metrics.TTFT, metrics.E2E, metrics.QUEUE):
            added = found.scope_metrics.add().metrics.add(name=metric.name, unit="s")
            added.exponential_histogram.aggregation_temporality = 1
            point = added.exponential_histogram.data_points.add(count=3, sum=0.75, scale=5)
            point.start_time_unix_nano, point.time_unix_nano = now_ns - 10**9, now_ns
            point.positive.offset = -65
            point.positive.bucket_counts.append(3)
            point.attributes.add(key=metrics.PROMPT_BUCKET.name).value.string_value = "<=128"
    sent = running.http.post(
        "/v1/metrics", content=request.SerializeToString(), headers={"Content-Type": "application/x-protobuf"}
    )
    assert sent.status_code == 200, sent.text


def send_judged(running: Service, pool: str) -> None:
    """Latencies that rules judge at their next tick, since newer ones have come: nobody waits for time to pass."""
    send(running, pool, age_s=LAG_S + 3 * WINDOW_S)
    send(running, pool)


def program(name: str) -> str:
    """The path of a Debian program; fails the test where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is not installed: deploy/test_packages.sh installs it")
    return found


def promtool(*arguments: str, given: bytes | None = None, cwd: Path | None = None) -> None:
    """Run promtool; fails with what it found."""
    command = [program("promtool"), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=60, cwd=cwd)
    told = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, f"{' '.join(command)}\n{told}"


@dataclass
class Prometheus:
    """A running Prometheus."""

    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": expression}, timeout=10).json()
        assert answer["status"] == "success", answer
        return list(answer["data"]["result"])


@contextmanager
def prometheus(folder: Path, config: str, port: int, *options: str) -> Iterator[Prometheus]:
    """The real binary with this configuration, its data in `folder`, ended with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "prometheus.yml"
    path.write_text(config)
    command = [program("prometheus"), f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn", *options]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        url = f"http://127.0.0.1:{port}"

        def ready() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            return httpx.get(f"{url}/-/ready").status_code == 200

        wait_for("prometheus is ready", ready, LIMIT_S)
        yield Prometheus(url)
    finally:
        process.terminate()
        process.wait(30)
