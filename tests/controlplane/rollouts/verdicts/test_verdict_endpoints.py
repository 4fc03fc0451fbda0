"""Verdicts over HTTP, as Argo Rollouts, Flagger and a pipeline ask for them."""

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.api import error_handlers
from controlplane.auth import store as tokens
from controlplane.auth.token_cache import TokenCache
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.db.database import Database
from controlplane.rollouts import store
from controlplane.rollouts.verdicts import verdict_endpoints
from tests.controlplane.telemetry.fake_reader import FakeReader
from tests.keyrings import keyring_of

ARMS = {"control": {"node": ["old-*"]}, "canary": {"node": ["new-*"]}}
HOOK = {"name": "chat", "namespace": "prod", "phase": "Progressing", "checksum": "8f"}


@pytest.fixture
def desk(telemetry: FakeReader) -> verdict_endpoints.VerdictDesk:
    return verdict_endpoints.VerdictDesk(telemetry)


@pytest.fixture
def app(database: Database, desk: verdict_endpoints.VerdictDesk, start: datetime) -> FastAPI:
    app = FastAPI()
    app.state.service = verdict_endpoints.VerdictParts(
        database=database,
        clock=lambda: start + timedelta(minutes=2),
        tokens=TokenCache(database),
        keyring=keyring_of(database),
        verdicts=desk,
    )
    app.include_router(verdict_endpoints.router)
    error_handlers.install(app)
    return app


@pytest.fixture
def token(database: Database, start: datetime) -> str:
    with database.session() as session:
        return tokens.issue(session, name="argo", scope=Scope.READ, now=start)[1]


@pytest.fixture
def http(app: FastAPI, token: str) -> Iterator[TestClient]:
    with TestClient(app, headers={"Authorization": f"Bearer {token}"}) as client:
        yield client


@pytest.fixture
def rollout(fleet: Any, database: Database, start: datetime) -> int:
    """A rollout of ours, under way."""
    fleet.add("a", "b")
    old, new = fleet.revision(16), fleet.revision(64)
    fleet.put_in_production(old)
    with database.session() as session:
        return store.create(session, RolloutCreate(pool="chat", revision=new), actor="p", now=start).id


def test_a_rollout_has_a_verdict(http: TestClient, rollout: int) -> None:
    answer = http.get(f"/api/v1/verdicts/{rollout}")
    assert answer.status_code == 200
    assert {"verdict", "ratio", "interval", "counts", "strata"} <= set(answer.json())
    assert answer.json()["verdict"] == "inconclusive"
    assert http.get("/api/v1/verdicts/999").status_code == 404


def test_two_arms_are_judged(http: TestClient, telemetry: FakeReader, start: datetime) -> None:
    for node in ("old-1", "new-1"):
        telemetry.add("ttft", start + timedelta(seconds=30), [0.1], node=node)
    telemetry.add("ttft", start + timedelta(seconds=110), [0.1], node="old-1")
    asked = {**ARMS, "metrics": ["ttft"], "settle_s": 0, "start": start.isoformat()}
    answer = http.post("/api/v1/verdicts", json=asked)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["verdict"], answer.json()["says"]) == ("inconclusive", ["not enough evidence, after 90 s"])
    refused = http.post("/api/v1/verdicts", json={**asked, "metrics": ["nothing"]})
    assert (refused.status_code, refused.json()["error"]["detail"]["field"]) == (400, "metrics[0]")


def test_who_comes_while_another_is_judged_waits_and_is_told_to_come_again(
    http: TestClient, desk: verdict_endpoints.VerdictDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_endpoints, "PATIENCE_S", 0.01)
    with desk._taken:
        answer = http.post("/api/v1/verdicts", json=ARMS)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert http.post("/api/v1/verdicts", json=ARMS).status_code == 200


def test_more_than_a_few_do_not_wait_for_they_would_hold_the_threads_of_all(
    http: TestClient, desk: verdict_endpoints.VerdictDesk
) -> None:
    with ExitStack() as asking:
        for _ in range(verdict_endpoints.MOST_ASKING):
            asking.enter_context(desk._asking)
        assert http.post("/api/v1/verdicts", json=ARMS).status_code == 429
    assert http.post("/api/v1/verdicts", json=ARMS).status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("levels", {"ttft": [place / 100 for place in range(1, 22)]}),
        ("limits", [{"metric": "ttft", "q": 0.5, "limit_s": 1.0}] * 33),
        ("metrics", ["ttft", "ttft"]),
    ],
)
def test_what_is_asked_at_once_is_bounded(http: TestClient, field: str, value: Any) -> None:
    answer = http.post("/api/v1/verdicts", json={**ARMS, field: value})
    assert answer.status_code in (400, 422) and field in answer.text


@pytest.mark.parametrize(("yes_when", "status"), [("pass", 409), ("not_fail", 200), ("fail", 409)])
def test_flagger_hears_yes_or_no(http: TestClient, rollout: int, yes_when: str, status: int) -> None:
    metadata = {"rollout": str(rollout), "yes_when": yes_when}
    answer = http.post("/api/v1/verdicts:flagger", json={**HOOK, "metadata": metadata})
    assert answer.status_code == status
    if status == 409:
        error = answer.json()["error"]
        assert error["detail"]["verdict"]["verdict"] == "inconclusive"
        assert f"yes is {yes_when}" in error["message"]


def test_flagger_asks_of_its_own_pods(http: TestClient) -> None:
    answer = http.post("/api/v1/verdicts:flagger", json=HOOK)
    assert (answer.status_code, answer.json()["says"]) == (200, ["the canary has reported nothing yet"])
    assert http.post("/api/v1/verdicts:flagger", json={**HOOK, "metadata": {"rollout": "99"}}).status_code == 404


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_flaggers_token_may_stand_in_the_address(app: FastAPI, token: str) -> None:
    """As Go's and other clients send what stands before an address's @."""
    answer = TestClient(app).post(f"http://flagger:{token}@testserver/api/v1/verdicts:flagger", json=HOOK)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        {},
        basic("flagger", "wrong"),
        basic("flagger", ""),
        {"Authorization": "Basic"},
        {"Authorization": "Basic %%%"},
        {"Authorization": "Basic /w=="},
    ],
)
def test_a_wrong_password_is_nobody(app: FastAPI, header: dict[str, str]) -> None:
    assert TestClient(app).post("/api/v1/verdicts:flagger", json=HOOK, headers=header).status_code == 401


def test_no_other_route_takes_a_password(app: FastAPI, token: str) -> None:
    stranger = TestClient(app, headers=basic("argo", token))
    assert stranger.post("/api/v1/verdicts", json=ARMS).status_code == 401
    assert stranger.get("/api/v1/verdicts/1").status_code == 401


def test_a_token_of_another_scope_is_refused(app: FastAPI, database: Database, start: datetime) -> None:
    with database.session() as session:
        _, text = tokens.issue(session, name="gpu-1", scope=Scope.AGENT, now=start)
    answer = TestClient(app).post("/api/v1/verdicts:flagger", json=HOOK, headers=basic("x", text))
    assert answer.status_code == 403


@pytest.mark.parametrize("field", ["start", "end", "control_start", "control_end"])
@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_a_moment_at_the_ends_of_the_calendar_is_a_400_that_names_it(http: TestClient, field: str, moment: str) -> None:
    start = {"control_end": "control_start", "control_start": "control_end"}
    both = {field: moment} | ({start[field]: moment} if field in start else {})
    answer = http.post("/api/v1/verdicts", json={**ARMS, **both})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["detail"]["field"] in (field, start.get(field))
