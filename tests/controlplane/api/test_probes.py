"""/readyz tells the truth about durability."""

import sqlite3
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy.exc import OperationalError

from controlplane.api import probes
from controlplane.db.disk_space import Space
from controlplane.db.fault import DISK_FULL


@pytest.fixture
def fresh(app: FastAPI) -> FastAPI:
    """The application with a readiness that has not looked yet."""
    app.state.service.readiness._tried_at = None
    return app


def test_healthz_needs_nothing(app: FastAPI) -> None:
    assert TestClient(app).get("/healthz").json() == {"status": "ok"}


def test_ready_when_the_database_takes_writes(fresh: FastAPI) -> None:
    answer = TestClient(fresh).get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["database"] == "writable"
    assert {"alert_evaluation", "rollouts", "fleet_liveness"} <= set(answer.json()["background"])


def test_not_ready_when_the_database_takes_no_write(fresh: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OperationalError("INSERT", {}, Exception("disk full on /secret"))

    monkeypatch.setattr(probes, "prove_write", refuse)
    answer = TestClient(fresh).get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["database"] == "OperationalError"
    assert "secret" not in answer.text


def test_the_probe_is_not_repeated_within_a_second(fresh: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[Any] = []
    monkeypatch.setattr(probes, "prove_write", lambda *given: writes.append(given))
    monkeypatch.setattr(probes.time, "monotonic", lambda: 50.0)
    for _ in range(5):
        TestClient(fresh).get("/readyz")
    assert len(writes) == 1
    monkeypatch.setattr(probes.time, "monotonic", lambda: 51.5)
    TestClient(fresh).get("/readyz")
    assert len(writes) == 2


def test_not_ready_when_telemetry_is_not(fresh: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh.state.service.telemetry, "ready", lambda: False)
    answer = TestClient(fresh).get("/readyz")
    assert (answer.status_code, answer.json()["telemetry"]) == (503, "not ready")


def test_not_ready_while_reports_cannot_be_written(fresh: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh.state.service.telemetry, "write_fault", lambda: DISK_FULL)
    answer = TestClient(fresh).get("/readyz")
    assert (answer.status_code, answer.json()["telemetry"]) == (503, "the disk is full")


def test_a_full_database_is_called_by_its_name(fresh: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorname = "SQLITE_FULL"

    def refuse(*_: Any) -> None:
        raise OperationalError("INSERT", {}, full)

    monkeypatch.setattr(probes, "prove_write", refuse)
    answer = TestClient(fresh).get("/readyz")
    assert (answer.status_code, answer.json()["database"]) == (503, "the disk is full")


def test_a_low_disk_and_a_stuck_tick_are_told_and_stay_ready(fresh: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh.state.service.disk, "_look", lambda _: Space(10, 1000))
    monkeypatch.setattr(fresh.state.service.background.ticks[0], "failed", True)
    answer = TestClient(fresh).get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["degraded"] == ["disk_low", "background_task_failing"]


def test_not_ready_while_stopping(fresh: FastAPI) -> None:
    fresh.state.service.stop.set()
    try:
        answer = TestClient(fresh).get("/readyz")
    finally:
        fresh.state.service.stop.clear()
    assert (answer.status_code, answer.json()["status"]) == (503, "stopping")
