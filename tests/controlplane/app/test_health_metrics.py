"""/metrics of the whole service tells of its own health: background work, database, nodes, alerts, degraded modes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.exc import OperationalError

from controlplane.alerts.tables import AlertRow
from controlplane.app.background import Background, Tick
from controlplane.app.health_metrics import DEGRADED, ServiceHealth
from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.auth.turned_away import TurnedAway
from controlplane.db.database import Database
from controlplane.db.disk_space import DiskSpace, Space
from controlplane.fleet.tables import NodeRow, PoolRow
from controlplane.serving.authority import Authority
from controlplane.serving.limits import Doorkeeper
from controlplane.telemetry.store import TelemetryStore
from tests.peers import promtool

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def app(tmp_path: Path) -> Any:
    made = create_app(ServiceSettings(data_dir=tmp_path, log_level="error", export_otlp_url="http://127.0.0.1:9"))
    made.state.service.telemetry.start()
    yield made
    made.state.service.telemetry.close()
    made.state.service.database.close()


def node(name: str, **more: Any) -> NodeRow:
    given = {"pool": "chat", "role": "serving", "backend": "embedded", "config_status": "unset", **more}
    return NodeRow(node=name, created_at=NOW, **given)


def alert(number: int, **more: Any) -> AlertRow:
    times = {name: NOW for name in ("started_at", "breach_since")}
    given = {"rule_id": 1, "rule": "r", "kind": "absolute", "pool": "chat", "labels": {}, "summary": "", **times}
    return AlertRow(fingerprint=str(number), **given, **more)


def values(app: Any) -> dict[str, float]:
    text = TestClient(app).get("/metrics").text
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    }


def test_nodes_alerts_ticks_and_the_database_are_told(app: Any) -> None:
    with app.state.service.database.session() as session:
        session.add(PoolRow(name="chat", created_at=NOW))
        session.flush()
        session.add_all([
            node("a", connected=True, healthy=True),
            node("b", connected=True, healthy=True, health_detail="no plugin"),
            node("c", connected=True),
            node("d"),
            node("e", role="trial"),
            alert(1, state="firing", severity="page"),
            alert(2, state="firing", severity="page"),
            alert(3, state="resolved", severity="page"),
        ])  # fmt: skip
    for tick in app.state.service.background.ticks:
        if tick.name == "study_leases":
            tick.run(NOW)
    found = values(app)
    for name, value in {
        'tailwright_nodes{role="serving",state="healthy"}': 1,
        'tailwright_nodes{role="serving",state="degraded"}': 1,
        'tailwright_nodes{role="serving",state="unhealthy"}': 1,
        'tailwright_nodes{role="serving",state="offline"}': 1,
        'tailwright_nodes{role="trial",state="offline"}': 1,
        'tailwright_alerts{severity="page",state="firing"}': 2,
        'tailwright_alerts{severity="page",state="pending"}': 0,
        'tailwright_background_runs_total{task="study_leases"}': 1,
        'tailwright_background_runs_total{task="rollouts"}': 0,
        'tailwright_background_last_run_timestamp_seconds{task="study_leases"}': NOW.timestamp(),
        f'{DEGRADED}{{mode="export_otlp"}}': 0,
        f'{DEGRADED}{{mode="telemetry_not_written"}}': 0,
        'tailwright_export_intervals_total{exporter="otlp"}': 0,
    }.items():
        assert found[name] == value, name
    assert found["tailwright_database_size_bytes"] > 10_000
    assert found["process_resident_memory_bytes"] > 1e6
    assert any(name.startswith("tailwright_build_info{") for name in found)
    assert not any('"a"' in name for name in found), "names of nodes are nobody's business here"


def test_promtool_finds_nothing_in_the_whole_page(app: Any) -> None:
    promtool("check", "metrics", given=TestClient(app).get("/metrics").content)


def test_degraded_modes_say_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: datetime) -> None:
        raise RuntimeError

    background = Background([Tick("failing", 1.0, fails)], lambda: NOW)
    background.ticks[0].run(NOW)
    database = Database(f"sqlite:///{tmp_path / 'empty.db'}")  # It has no tables: every look at it fails.
    telemetry = TelemetryStore(database, lambda: NOW)  # It was never started.
    monkeypatch.setattr(telemetry.frames, "fault", lambda: "away")
    disk = DiskSpace(database, lambda _: Space(free_bytes=1 << 20, total_bytes=1 << 30))
    health = ServiceHealth(database, background, [], telemetry, disk, Doorkeeper(), TurnedAway(), "1")
    with pytest.raises(OperationalError):
        list(health._of_database())
    (modes,) = [metric for metric in health.collect() if metric.name == DEGRADED]
    assert {sample.labels["mode"]: sample.value for sample in modes.samples} == {
        "database_unreadable": 1.0,
        "telemetry_not_written": 1.0,
        "frames_unavailable": 1.0,
        "disk_low": 1.0,
        "background_task_failing": 1.0,
    }
    database.close()


def test_certificates_tell_when_they_end_and_which_cannot_be_used(tmp_path: Path) -> None:
    now, authority = datetime.now(UTC).replace(microsecond=0), Authority(tmp_path / "tls")
    authority.init(now)
    authority.issue_server("service", ["localhost"], now)
    cert, key, ca, crl = (authority.folder / name for name in ("service.pem", "service.key", "ca.pem", "crl.pem"))
    later = [now]
    given = ServiceSettings(data_dir=tmp_path, log_level="error", tls_cert=cert, tls_key=key, tls_client_ca=ca)
    secured = create_app(given.model_copy(update={"tls_client_crl": crl}), lambda: later[0])
    http, tls = TestClient(secured), secured.state.service.tls
    gauge, failures = "tailwright_tls_certificate_end_timestamp_seconds", "tailwright_tls_file_failures_total"
    found = values(secured)
    assert found[f'{gauge}{{file="tls_cert"}}'] == found[f'{gauge}{{file="tls_client_crl"}}']
    assert found[f'{gauge}{{file="tls_cert"}}'] == (now + timedelta(days=90)).timestamp()
    assert found[f'{gauge}{{file="tls_client_ca"}}'] == (now + timedelta(days=3650)).timestamp()
    assert found[f'{DEGRADED}{{mode="tls_file_unusable"}}'] == found[f'{failures}{{file="tls_client_crl"}}'] == 0
    assert not {"tls_file_unusable", "revocation_list_ended"} & set(http.get("/readyz").json()["degraded"])
    crl.write_text("not a list")
    tls.look()
    later[0] += timedelta(days=91)
    assert {"tls_file_unusable", "revocation_list_ended"} <= set(http.get("/readyz").json()["degraded"])
    service = secured.state.service
    parts = (service.database, service.background, [], service.telemetry, service.disk, service.door, TurnedAway(), "1")
    samples = [sample for metric in ServiceHealth(*parts, tls).collect() for sample in metric.samples]
    (failed,) = [one for one in samples if one.name == failures and one.labels["file"] == "tls_client_crl"]
    shown = {one.labels["mode"] for one in samples if one.name == DEGRADED and one.value}
    assert failed.value == 1 and {"tls_file_unusable", "revocation_list_ended"} <= shown
    secured.state.service.database.close()


def test_a_write_fault_is_told_while_the_store_runs(app: Any) -> None:
    # So large a commit that no room that others give back on this machine's disk ends it.
    app.state.service.telemetry.writer.fault.failed(OperationalError("INSERT", {}, Exception("x")), 1 << 60)
    assert values(app)[f'{DEGRADED}{{mode="telemetry_not_written"}}'] == 1


def test_an_export_that_fails_is_told_and_stops_nothing(app: Any) -> None:
    (exporter,) = app.state.service.exporters
    now = datetime.now(UTC)
    exporter.tick(now)
    exporter.error = "ConnectError"
    http = TestClient(app)
    answer = http.get("/readyz")
    assert answer.status_code == 200 and answer.json()["degraded"] == ["export_otlp"]
    assert answer.json()["exports"]["otlp"]["failing"] is True
    assert values(app)[f'{DEGRADED}{{mode="export_otlp"}}'] == 1
    assert exporter.tick(now + timedelta(seconds=1)) == 0
