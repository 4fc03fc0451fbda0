"""Incidents over HTTP: what people may do, what is refused and how, and what comes of doing it twice."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient

from controlplane.auth import store as tokens
from controlplane.auth.token_cache import TokenCache
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.errors import TailwrightError
from controlplane.db import Database
from controlplane.incidents.endpoints import IncidentParts, router
from controlplane.incidents.upkeep import IncidentKeeper
from tests.controlplane.incidents.conftest import START
from tests.keyrings import keyring_of

NOW = START + timedelta(seconds=60)
BASE = "/api/v1/incidents"


@pytest.fixture
def http(database: Database) -> Iterator[TestClient]:
    app = FastAPI()
    app.include_router(router)
    app.state.service = IncidentParts(
        database=database,
        clock=lambda: NOW,
        tokens=TokenCache(database),
        keyring=keyring_of(database),
        public_url="https://tailwright.example",
    )

    @app.exception_handler(TailwrightError)
    def answer(_: Request, error: TailwrightError) -> JSONResponse:
        return JSONResponse(error.body(), status_code=error.status)

    with database.session() as session:
        _, token = tokens.issue(session, name="ada", scope=Scope.OPERATE, now=START)
    yield TestClient(app, headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def two(database: Database, alert: Callable[..., Alert], put: Callable[[Alert], None]) -> None:
    """Incident 1 of alerts 1 and 2 in the pool chat, incident 2 of alert 3 in the pool batch."""
    put(alert(1, stage="queue"))
    put(alert(2, labels={"metric": "e2e"}, stage="queue"))
    put(alert(3, labels={"pool": "batch"}, began_s=20))
    IncidentKeeper(database).tick(NOW)


def done(answer: Any, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer: Any, status: int, field: str) -> str:
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["detail"]["field"] == field
    return str(answer.json()["error"]["message"])


@pytest.mark.usefixtures("two")
def test_the_list_is_newest_first_and_filtered(http: TestClient) -> None:
    assert [one["id"] for one in done(http.get(BASE))["items"]] == [2, 1]
    assert [one["id"] for one in done(http.get(BASE, params={"pool": "chat"}))["items"]] == [1]
    done(http.post(f"{BASE}/2/resolve", json={"reason": "a test"}))
    assert [one["id"] for one in done(http.get(BASE, params={"open": True}))["items"]] == [1]
    assert [one["id"] for one in done(http.get(BASE, params={"state": "resolved"}))["items"]] == [2]
    for alert, incidents in ((2, [1]), (3, [2]), (9, [])):
        assert [one["id"] for one in done(http.get(BASE, params={"alert_id": alert}))["items"]] == incidents
    refused(http.get(f"{BASE}/9"), 404, "incident_id")


@pytest.mark.usefixtures("two")
def test_who_acknowledges_first_is_named(http: TestClient) -> None:
    for _ in range(2):
        shown = done(http.post(f"{BASE}/1/acknowledge", json={}))
        assert (shown["state"], shown["acknowledged_by"]) == ("acknowledged", "ada")
    entries = [one for one in done(http.get(f"{BASE}/1"))["timeline"] if one["kind"] == "acknowledged"]
    assert [(one["actor"], one["text"]) for one in entries] == [("ada", "ada looks at it")]


@pytest.mark.usefixtures("two")
def test_a_note_sent_twice_with_its_key_is_there_once(http: TestClient) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = done(http.post(f"{BASE}/1/notes", json={"text": "looking"}, headers=key), 201)
    assert done(http.post(f"{BASE}/1/notes", json={"text": "looking"}, headers=key), 201) == first
    refused(http.post(f"{BASE}/1/notes", json={"text": "other"}, headers=key), 409, "Idempotency-Key")
    done(http.post(f"{BASE}/1/notes", json={"text": "looking"}), 201)
    assert [note["text"] for note in done(http.get(f"{BASE}/1"))["notes"]] == ["looking", "looking"]


@pytest.mark.usefixtures("two")
def test_merge_takes_alerts_notes_and_history(http: TestClient) -> None:
    done(http.post(f"{BASE}/2/notes", json={"text": "of batch"}), 201)
    for _ in range(2):
        taken = done(http.post(f"{BASE}/1/merge", json={"incident_id": 2}))
        assert (taken["alerts"], taken["state"]) == (3, "open")
    given = done(http.get(f"{BASE}/2"))
    assert (given["state"], given["merged_into"], given["alerts"]) == ("merged", 1, 0)
    shown = done(http.get(f"{BASE}/1"))
    assert [note["text"] for note in shown["notes"]] == ["of batch"]
    assert {entry["subject"] for entry in shown["timeline"] if entry["kind"] == "opened"} == {
        "incident/1",
        "incident/2",
    }
    assert "cannot be merged into itself" in refused(
        http.post(f"{BASE}/1/merge", json={"incident_id": 1}), 400, "incident_id"
    )
    refused(http.post(f"{BASE}/2/acknowledge", json={}), 409, "incident_id")
    refused(http.post(f"{BASE}/2/merge", json={"incident_id": 1}), 409, "incident_id")
    refused(http.post(f"{BASE}/1/merge", json={"incident_id": 9}), 404, "incident_id")


@pytest.mark.usefixtures("two")
def test_split_makes_another_incident_once(http: TestClient) -> None:
    for _ in range(2):
        made = done(http.post(f"{BASE}/1/split", json={"alert_ids": [2], "reason": "another node"}))
        assert (made["id"], made["alerts"], made["pool"], made["state"]) == (3, 1, "chat", "open")
    assert done(http.get(f"{BASE}/1"))["alerts"] == 1
    (member,) = done(http.get(f"{BASE}/3"))["members"]
    assert member["why"] == "it was split off incident 1 by ada: another node"
    assert "leave the incident one alert" in refused(
        http.post(f"{BASE}/1/split", json={"alert_ids": [1]}), 400, "alert_ids"
    )
    assert "alert 3 is not of incident 1" in refused(
        http.post(f"{BASE}/1/split", json={"alert_ids": [3]}), 400, "alert_ids"
    )


@pytest.mark.usefixtures("two")
def test_closing_wants_a_reason_and_stands(http: TestClient, database: Database) -> None:
    assert http.post(f"{BASE}/1/resolve", json={}).status_code == 422
    for reason in ("a load test", "again"):
        shown = done(http.post(f"{BASE}/1/resolve", json={"reason": reason}))
        assert (shown["state"], shown["resolved_by"], shown["firing"]) == ("resolved", "ada", 2)
    IncidentKeeper(database).tick(NOW + timedelta(hours=2))
    assert done(http.get(f"{BASE}/1"))["state"] == "resolved", "its alerts fire on, and nobody is woken again"
    told = [one["text"] for one in done(http.get(f"{BASE}/1"))["timeline"] if one["kind"] == "resolved"]
    assert told == ["resolved: a load test"]


@pytest.mark.usefixtures("two")
def test_the_cause_is_what_was_said_last_and_is_said_once(http: TestClient) -> None:
    def say(**body: str) -> Any:
        return http.post(f"{BASE}/1/cause", json=body)

    assert done(http.get(f"{BASE}/1"))["confirmed_cause"] is None
    for _ in range(2):
        done(say(cause="load", comment="the batch job"))
    done(say(cause="host"))
    found = done(http.get(f"{BASE}/1"))
    assert found["confirmed_cause"]["cause"] == "host" and found["confirmed_cause"]["by"] == "ada"
    told = [entry["text"] for entry in found["timeline"] if entry["kind"] == "cause"]
    assert told == ["the cause was load: the batch job", "the cause was host"]
    assert "Confirmed by" in http.get(f"{BASE}/1/post-mortem").text
    assert say(cause="the moon").status_code == 422
    assert http.post(f"{BASE}/77/cause", json={"cause": "load"}).status_code == 404


@pytest.mark.usefixtures("two")
def test_the_post_mortem_is_markdown(http: TestClient) -> None:
    answer = http.get(f"{BASE}/1/post-mortem")
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert answer.text.startswith("# Post-mortem: incident 1\n")
    assert "<https://tailwright.example/incidents/1>" in answer.text


def test_routes_come_and_go(http: TestClient) -> None:
    made = done(http.post("/api/v1/routes", json={"name": "chat", "matchers": {"pool": "chat"}, "owner": "team"}), 201)
    assert made["group_by"] == ["pool"]
    changed = {"name": "chat", "owner": "others", "group_by": []}
    assert done(http.put(f"/api/v1/routes/{made['id']}", json=changed))["owner"] == "others"
    assert [one["owner"] for one in done(http.get("/api/v1/routes"))["items"]] == ["others"]
    twice = {"name": "r", "owner": "o", "group_by": ["pool", "pool"]}
    assert "'pool' is given twice" in refused(http.post("/api/v1/routes", json=twice), 400, "group_by")
    refused(http.post("/api/v1/routes", json={"name": "r", "owner": "o", "matchers": {"": "x"}}), 400, "matchers")
    assert http.delete(f"/api/v1/routes/{made['id']}").status_code == 204
    refused(http.delete(f"/api/v1/routes/{made['id']}"), 404, "route_id")
