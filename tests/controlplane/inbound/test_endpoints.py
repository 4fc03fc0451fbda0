"""Alertmanager, Grafana and others' deploys post to us: kept once, in the ledger, by tokens for nothing else."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient

from controlplane import ledger
from controlplane.app.tables import all_tables
from controlplane.auth import store as tokens
from controlplane.auth.token_cache import TokenCache
from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import TailwrightError
from controlplane.db import Database
from controlplane.inbound.endpoints import InboundParts, router
from tests.keyrings import keyring_of
from tests.made_tables import create_tables

JSON = {"Content-Type": "application/json"}
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
TAKEN = {"taken": 0, "changed": 0, "ours": 0, "refused": 0, "shortened": 0}
ALERTMANAGER: dict[str, Any] = {
    "version": "4",
    "groupKey": '{}:{alertname="Down"}',
    "truncatedAlerts": 0,
    "status": "firing",
    "receiver": "tailwright",
    "groupLabels": {"alertname": "Down"},
    "commonLabels": {},
    "commonAnnotations": {},
    "externalURL": "http://am:9093",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "Down", "instance": "gw-1"},
            "annotations": {"summary": "gw-1 is down"},
            "startsAt": "2029-12-31T23:59:01.123456789Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prom/graph",
            "fingerprint": "c0ffee",
        }
    ],
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/t.db")
    create_tables(made, all_tables())
    yield made
    made.close()


@pytest.fixture
def clients(database: Database) -> dict[str, TestClient]:
    app = FastAPI()
    app.include_router(router)
    app.state.service = InboundParts(
        database=database, clock=lambda: NOW, tokens=TokenCache(database), keyring=keyring_of(database)
    )

    @app.exception_handler(TailwrightError)
    def answer(_: Request, error: TailwrightError) -> JSONResponse:
        return JSONResponse(error.body(), status_code=error.status)

    made = {}
    for scope in (Scope.READ, Scope.POST, Scope.OPERATE):
        with database.session() as session:
            _, token = tokens.issue(session, name=scope.value, scope=scope, now=NOW)
        made[scope.value] = TestClient(app, headers={"Authorization": f"Bearer {token}"})
    return made


def kinds(database: Database) -> list[str]:
    with database.session() as session:
        return [one.kind for one in ledger.entries(session, before_id=None, limit=99)][::-1]


def with_alert(**other: Any) -> dict[str, Any]:
    return {**ALERTMANAGER, "alerts": [{**ALERTMANAGER["alerts"][0], **other}]}


def test_alertmanagers_alerts_are_kept_once_and_end(clients: dict[str, TestClient], database: Database) -> None:
    post = clients["post"]
    assert post.post("/api/v1/inbound/alertmanager", json=ALERTMANAGER).json() == TAKEN | {"taken": 1, "changed": 1}
    assert post.post("/api/v1/inbound/alertmanager", json=ALERTMANAGER).json() == TAKEN | {"taken": 1}
    (kept,) = clients["read"].get("/api/v1/inbound/alerts").json()["items"]
    assert (kept["source"], kept["fingerprint"], kept["status"]) == ("alertmanager", "c0ffee", "firing")
    assert kept["starts_at"] == "2029-12-31T23:59:01.123456Z" and kept["ends_at"] is None
    over = with_alert(status="resolved", endsAt="2030-01-01T00:10:00Z")
    assert post.post("/api/v1/inbound/alertmanager", json=over).json()["changed"] == 1
    assert post.post("/api/v1/inbound/alertmanager", json=ALERTMANAGER).json()["changed"] == 0  # It came late.
    (kept,) = clients["read"].get("/api/v1/inbound/alerts", params={"status": "resolved"}).json()["items"]
    assert kept["ends_at"] == "2030-01-01T00:10:00Z"
    assert kinds(database) == ["inbound.firing", "inbound.resolved"]


def test_grafanas_own_fields_do_no_harm(clients: dict[str, TestClient]) -> None:
    extra = {"orgId": 1, "title": "t", "state": "alerting", "message": "m"}
    alert = with_alert(values={"A": 1.5}, valueString="[ ]", dashboardURL="", panelURL="", silenceURL="", imageURL=None)
    assert clients["post"].post("/api/v1/inbound/grafana", json={**alert, **extra}).json()["changed"] == 1
    assert clients["read"].get("/api/v1/inbound/alerts").json()["items"][0]["source"] == "grafana"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"no json", "body"),
        (b"[" * 100_000, "body"),
        (b"[]", "alerts"),
        (b'{"alerts": {}}', "alerts"),
        (b'{"alerts": [1]}', "alerts[0]"),
        (json.dumps(with_alert(status="maybe")).encode(), "alerts[0].status"),
        (json.dumps(with_alert(labels={})).encode(), "alerts[0].labels"),
        (json.dumps(with_alert(labels="x")).encode(), "alerts[0].labels"),
        (json.dumps(with_alert(startsAt="yesterday")).encode(), "alerts[0].startsAt"),
        (json.dumps({"alerts": ALERTMANAGER["alerts"] * 1001}).encode(), "alerts"),
    ],
)
def test_what_is_no_alert_names_its_field(clients: dict[str, TestClient], body: bytes, field: str) -> None:
    answer = clients["post"].post("/api/v1/inbound/alertmanager", content=body, headers=JSON)
    assert answer.status_code == 400 and answer.json()["error"]["detail"]["field"] == field


def test_texts_are_bounded_and_storable(clients: dict[str, TestClient]) -> None:
    labels = {"alertname": "a\x00b\ud800", **{f"l{number}": "x" * 9000 for number in range(200)}}
    body = json.dumps(with_alert(labels=labels, fingerprint="")).encode()
    told = clients["post"].post("/api/v1/inbound/alertmanager", content=body, headers=JSON).json()
    assert told == TAKEN | {"taken": 1, "changed": 1, "shortened": 1}
    kept = clients["read"].get("/api/v1/inbound/alerts").json()["items"][0]
    assert sum(len(name) + len(text) for name, text in kept["labels"].items()) <= 4096
    assert max(map(len, kept["labels"].values())) == 2048
    assert kept["labels"]["alertname"] == "ab?" and len(kept["fingerprint"]) == 16
    too_large = clients["post"].post("/api/v1/inbound/alertmanager", content=b" " * (5 << 20), headers=JSON)
    assert too_large.status_code == 413


def test_a_deploy_is_a_mark(clients: dict[str, TestClient], database: Database) -> None:
    wanted = {"kind": "deploy", "subject": "gateway 4.2.1", "labels": {"pool": "chat"}, "link": "https://ci.test/7"}
    made = clients["post"].post("/api/v1/events", json={**wanted, "time": "2029-12-31T23:00:00+01:00"})
    assert made.status_code == 201 and made.json()["time"].startswith("2029-12-31T22:00:00")
    assert clients["post"].post("/api/v1/events", json=wanted).json()["time"].startswith("2030-01-01T12:00:00")
    assert len(clients["read"].get("/api/v1/events").json()["items"]) == 2
    assert kinds(database) == ["event.posted", "event.posted"]
    many = {f"l{number}": "x" for number in range(33)}
    for labels in (many, {"a": "x" * 257}, {"": "x"}):
        answer = clients["post"].post("/api/v1/events", json={**wanted, "labels": labels})
        assert answer.status_code == 422 and answer.json()["detail"][0]["loc"][:2] == ["body", "labels"]
    for other in ({"kind": "Two Words"}, {"link": "javascript:alert(1)"}, {"time": "2030-01-01T00:00:00"}):
        assert clients["post"].post("/api/v1/events", json={**wanted, **other}).status_code == 422


def test_a_token_of_scope_post_may_only_post(clients: dict[str, TestClient]) -> None:
    wanted = {"kind": "deploy", "subject": "x"}
    assert clients["read"].post("/api/v1/events", json=wanted).status_code == 403
    assert clients["operate"].post("/api/v1/events", json=wanted).status_code == 201
    for path in ("events", "inbound/alerts"):
        assert clients["post"].get(f"/api/v1/{path}").status_code == 403
