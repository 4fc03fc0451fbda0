"""The service put together: it starts, works in the background, stops, and starts again on what it left."""

import threading
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings


def start(data_dir: Path) -> TestClient:
    return TestClient(create_app(ServiceSettings(data_dir=data_dir, log_level="error")))


def test_every_tick_runs_and_none_fails(tmp_path: Path) -> None:
    with start(tmp_path) as http:
        pause = threading.Event()
        for _ in range(500):
            report = http.get("/readyz").json()["background"]
            if all(tick["runs"] for tick in report.values()):
                break
            pause.wait(0.02)
        assert http.get("/readyz").status_code == 200
    assert set(report) == {
        "telemetry_compaction",
        "alert_evaluation",
        "webhook_delivery",
        "rollouts",
        "rollout_hooks",
        "trial_leases",
        "study_leases",
        "online_tuning",
        "fleet_liveness",
        "account_notices",
        "first_tokens",
        "token_ends",
        "token_uses",
        "alert_history",
        "incidents",
        "incident_history",
        "inbound_alerts",
        "inbound_history",
        "memory",
        "personal_data",
        "security_log",
    }
    assert all(tick["runs"] and not tick["failures"] for tick in report.values()), report


@pytest.mark.slow
def test_a_restart_keeps_what_was_there(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with start(tmp_path) as http:
            http.headers["Authorization"] = f"Bearer {(tmp_path / 'admin-token').read_text().strip()}"
            http.post("/api/v1/configs", json={"knobs": {"max_num_seqs": 5}})
            seen.append([http.get(f"/api/v1/{path}").json()["items"] for path in ("configs", "tokens", "alert-rules")])
    assert seen[0] == seen[1]
    assert all(seen[0])


def test_the_data_is_its_owner_s_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with start(data_dir):
        modes = {path.name: path.stat().st_mode & 0o777 for path in data_dir.iterdir()}
    assert data_dir.stat().st_mode & 0o777 == 0o700
    assert set(modes.values()) == {0o600}, modes


def test_before_its_start_the_service_is_not_ready(tmp_path: Path) -> None:
    app = create_app(ServiceSettings(data_dir=tmp_path, log_level="error"))
    assert TestClient(app).get("/readyz").status_code == 503
    app.state.service.database.close()
