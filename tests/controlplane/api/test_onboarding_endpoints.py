"""`GET /api/v1/onboarding` on a fresh service, as one step after the other gets done; and who is told which files."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from controlplane.app.service import Service as App
from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract import metrics
from controlplane.contract.clock import utc_now
from tests.conftest import Stack
from tests.peers import Service, send, service
from tests.processes import wait_for


def done(http: httpx.Client) -> list[str]:
    answer = http.get("/api/v1/onboarding")
    assert answer.status_code == 200, answer.text
    return [step["name"] for step in answer.json()["steps"] if step["done"]]


def send_gauge(running: Service) -> None:
    """A report of an engine that has had no request."""
    request = ExportMetricsServiceRequest()
    found = request.resource_metrics.add()
    found.resource.attributes.add(key=metrics.NODE.name).value.string_value = "gpu-1"
    point = found.scope_metrics.add().metrics.add(name=metrics.RUNNING.name).gauge.data_points.add(as_double=1.0)
    point.time_unix_nano = int(utc_now().timestamp() * 1e9) - 10**9
    sent = running.http.post(
        "/v1/metrics", content=request.SerializeToString(), headers={"Content-Type": "application/x-protobuf"}
    )
    assert sent.status_code == 200, sent.text


@pytest.mark.slow
def test_each_step_is_done_once_it_was_seen(tmp_path: Path) -> None:
    with service(tmp_path / "data") as running:
        assert done(running.http) == []
        body = {"node": "gpu-1", "pool": "chat", "backend": "embedded"}
        assert running.http.post("/api/v1/enrol", json=body).status_code == 201
        assert done(running.http) == ["agent"]
        assert not running.http.get("/api/v1/onboarding").json()["reported"]
        send_gauge(running)
        assert done(running.http) == ["engine", "agent"]
        assert running.http.get("/api/v1/onboarding").json()["reported"]
        send(running, "chat")
        assert done(running.http) == ["engine", "agent", "traffic"]
        found = running.http.get("/api/v1/onboarding").json()
        assert found["service_url"] == running.url, "the port that was truly taken"


def test_a_real_engine_and_agent_do_the_steps(stack: Stack) -> None:
    with stack.client() as client:
        steps = {step.name.value: step for step in client.onboarding().steps}
        assert steps["engine"].done and steps["agent"].done
        assert stack.complete("def f(x):").status_code == 200
        wait_for("a request was measured", lambda: all(step.done for step in client.onboarding().steps))


def told(folder: Path, token_file: str, **settings: Any) -> dict[str, Any]:
    made = create_app(ServiceSettings(data_dir=folder, log_level="error", **settings))
    App.of(made).telemetry.start()
    try:
        token = (folder / token_file).read_text().strip()
        found: dict[str, Any] = (
            TestClient(made).get("/api/v1/onboarding", headers={"Authorization": f"Bearer {token}"}).json()
        )
        return found
    finally:
        App.of(made).telemetry.close()
        App.of(made).database.close()


def test_files_are_told_on_loopback_and_to_admins_alone(tmp_path: Path) -> None:
    file = str(tmp_path / "enrolment-token")
    far = {"host": "0.0.0.0", "insecure_http": True, "external_url": "https://tailwright.example/"}
    near = told(tmp_path, "dashboard-token")
    assert near["enrolment_token_file"] == file and file in near["steps"][1]["command"]
    reader = told(tmp_path, "dashboard-token", **far)
    assert reader["enrolment_token_file"] is None and str(tmp_path) not in str(reader)
    assert reader["service_url"] == "https://tailwright.example"
    assert "--server-url https://tailwright.example --enrolment-token-file FILE" in reader["steps"][1]["command"]
    assert told(tmp_path, "admin-token", **far)["enrolment_token_file"] == file


def test_a_file_that_was_moved_elsewhere_is_not_told(tmp_path: Path) -> None:
    told(tmp_path, "admin-token")
    (tmp_path / "enrolment-token").unlink()
    found = told(tmp_path, "admin-token")
    assert found["enrolment_token_file"] is None and "--enrolment-token-file FILE" in found["steps"][1]["command"]
