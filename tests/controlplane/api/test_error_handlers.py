"""Every kind of error has one form, and tells what was wrong, where, and the mend."""

import logging
from typing import Any

import pytest
from fastapi.testclient import TestClient


def error_of(answer: Any) -> dict[str, Any]:
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "detail"}
    found: dict[str, Any] = body["error"]
    return found


@pytest.mark.parametrize(
    ("outcome", "status", "code", "message"),
    [
        ("conflict", 409, "conflict", "it runs already"),
        ("overloaded", 429, "overloaded", "too many at once"),
        ("unavailable", 503, "unavailable", "not yet"),
        ("integrity", 409, "conflict", "look and try again"),
        ("data", 400, "bad_request", "cannot be stored"),
        ("operational", 503, "unavailable", "database is not available"),
        ("surprise", 500, "internal", "an internal error"),
    ],
)
def test_each_kind_has_its_status_and_code(
    http: TestClient, outcome: str, status: int, code: str, message: str
) -> None:
    answer = http.get(f"/failing/{outcome}")
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (status, code)
    assert message in error["message"]
    assert "secret" not in answer.text


def test_a_surprise_is_logged_with_its_trace(http: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        http.get("/failing/surprise")
    assert any("a secret" in str(record.exc_info) for record in caplog.records if record.exc_info)


def test_overload_says_when_to_try_again(http: TestClient) -> None:
    answer = http.get("/failing/overloaded")
    assert answer.headers["Retry-After"] == "3"
    assert error_of(answer)["detail"]["retry_after_s"] == 2.5


def test_unknown_routes_and_methods(http: TestClient) -> None:
    answer = http.get("/api/v1/nothing")
    assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
    answer = http.put("/api/v1/tokens", json={})
    assert (answer.status_code, error_of(answer)["code"]) == (405, "method_not_allowed")
    assert "GET" in answer.headers["Allow"] or "POST" in answer.headers["Allow"]


def test_no_token_and_a_wrong_token(http: TestClient) -> None:
    for header in ("", "Bearer", "Bearer tailwright_wrong", "Basic abc"):
        answer = http.get("/api/v1/nodes", headers={"Authorization": header})
        assert (answer.status_code, error_of(answer)["code"]) == (401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"knobs": 3}, "body.knobs", "dictionary"),
        ({}, "body.knobs", "is required"),
        ({"knobs": {}, "base": "x"}, "body.base", "integer"),
        ({"knobs": {}, "note": "n" * 501}, "body.note", "at most 500"),
    ],
)
def test_wrong_input_names_the_field(http: TestClient, body: Any, field: str, message: str) -> None:
    answer = http.post("/api/v1/configs", json=body)
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "bad_request")
    assert error["detail"]["field"] == field
    assert error["detail"]["errors"][0]["field"] == field
    assert error["message"].startswith(f"{field}: ")
    assert message in error["message"]


def test_every_wrong_field_is_told(http: TestClient) -> None:
    answer = http.post("/api/v1/tokens", json={"name": "", "scope": "god"})
    fields = [problem["field"] for problem in error_of(answer)["detail"]["errors"]]
    assert fields == ["body.name", "body.scope"]


@pytest.mark.parametrize(
    "body", [b"{", b"", b"\xff\xfe", b"\xff\xfe\x00", b"[" * 100_000, b"1" * 5000, b'"text"', b"[]", b"null"]
)
def test_bodies_that_are_no_object(http: TestClient, body: bytes) -> None:
    answer = http.post("/api/v1/configs", content=body, headers={"Content-Type": "application/json"})
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "bad_request")
    assert error["detail"]["field"] == "body"


def test_wrong_queries_name_the_parameter(http: TestClient) -> None:
    answer = http.get("/api/v1/ledger?limit=0")
    assert error_of(answer)["detail"]["field"] == "query.limit"
    answer = http.get(f"/api/v1/ledger?cursor={10**30}")
    assert (answer.status_code, error_of(answer)["detail"]["field"]) == (400, "query.cursor")
    answer = http.get("/api/v1/configs/abc")
    assert error_of(answer)["detail"]["field"] == "path.number"


@pytest.mark.parametrize("number", [0, -1, 10**30])
def test_numbers_nothing_can_have_are_not_found(http: TestClient, number: int) -> None:
    assert http.get(f"/api/v1/configs/{number}").status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "field", "hint"),
    [
        ("/api/v1/configs", {"knob": {}}, "body.knob", "'knobs'"),
        ("/api/v1/tokens", {"name": "x", "scope": "read", "scopes": []}, "body.scopes", "'scope'"),
        (
            "/api/v1/studies",
            {"pool": "p", "constraints": [{"metrik": "ttft"}]},
            "body.constraints.0.metrik",
            "'metric'",
        ),
        ("/api/v1/studies", {"pool": "p", "max_trial": 3}, "body.max_trial", "'max_trials'"),
    ],
)
def test_unknown_fields_are_refused_with_the_nearest(
    http: TestClient, path: str, body: Any, field: str, hint: str
) -> None:
    answer = http.post(path, json=body)
    error = error_of(answer)
    assert (answer.status_code, error["detail"]["field"]) == (400, field)
    assert hint in error["message"]


def test_free_objects_take_any_key(http: TestClient) -> None:
    answer = http.post("/api/v1/configs", json={"knobs": {"max_num_seq": 3}})
    assert error_of(answer)["code"] == "unknown_knob"


def test_text_without_a_utf8_form_is_quoted_safely(http: TestClient) -> None:
    answer = http.post(
        "/api/v1/configs", content=b'{"knobs": {"\\ud800": 1}}', headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, error_of(answer)["detail"]["field"]) == (400, "body.knobs.\ud800")


@pytest.mark.parametrize("text", ["\\ud800", "a\\u0000b"])
def test_text_that_no_database_keeps_is_refused(http: TestClient, text: str) -> None:
    body = f'{{"matchers": {{"pool": "{text}"}}, "ends_at": "2100-01-01T00:00:00Z"}}'
    answer = http.post("/api/v1/silences", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, error_of(answer)["detail"]["field"]) == (400, "body.matchers.pool")
    answer = http.get("/api/v1/rollouts?pool=a%00b")
    assert (answer.status_code, error_of(answer)["detail"]["field"]) == (400, "pool")


def test_unknown_parameters_are_refused_with_the_nearest(http: TestClient) -> None:
    answer = http.get("/api/v1/nodes?pol=chat")
    assert (answer.status_code, error_of(answer)["detail"]["field"]) == (400, "pol")
    assert "'pool'" in error_of(answer)["message"]
    assert http.get("/healthz?from=probe").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("GET", "/api/v1/alerts/{}", "path.alert_id"),
        ("DELETE", "/api/v1/alert-rules/{}", "path.rule_id"),
        ("DELETE", "/api/v1/silences/{}", "path.silence_id"),
        ("DELETE", "/api/v1/destinations/{}", "path.destination_id"),
        ("POST", "/api/v1/destinations/{}/test", "path.destination_id"),
        ("GET", "/api/v1/deliveries?alert_id={}", "query.alert_id"),
        ("DELETE", "/api/v1/tokens/{}", "path.token_id"),
        ("GET", "/api/v1/rollouts/{}", "path.rollout_id"),
        ("GET", "/api/v1/studies/{}", "path.study_id"),
    ],
)
def test_ids_that_no_row_can_have(http: TestClient, method: str, path: str, field: str) -> None:
    answer = http.request(method, path.format(2**63))
    assert (answer.status_code, error_of(answer)["detail"]["field"]) == (400, field)


def test_who_asks_is_looked_at_before_what_is_asked(http: TestClient) -> None:
    for path in ("quantiles", "scalars", "workload", "requests?window=x"):
        answer = http.get(f"/api/v1/{path}", headers={"Authorization": "Bearer tailwright_wrong"})
        assert answer.status_code == 401


@pytest.mark.parametrize("name", ["baseline_s", "false_alarm_every_s", "min_baseline_count"])
@pytest.mark.parametrize("value", ["1e308", "Infinity", "1000000000000000"])
def test_a_rule_without_measure_would_end_all_alerting(http: TestClient, name: str, value: str) -> None:
    body = f'{{"name": "r", "condition": {{"kind": "regression", "{name}": {value}}}}}'
    answer = http.post("/api/v1/alert-rules", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, error_of(answer)["detail"]["field"]) == (400, f"body.condition.regression.{name}")


def test_the_study_of_a_remedy_is_checked_with_its_rule(http: TestClient) -> None:
    remedy = {"study": {"pool": "p", "objective": "speed"}}
    answer = http.post("/api/v1/alert-rules", json={"name": "r", "condition": {"kind": "drift"}, "remedy": remedy})
    assert (answer.status_code, error_of(answer)["detail"]["field"]) == (400, "remedy.study.objective")
    taking_back = {"name": "r", "condition": {"kind": "drift"}, "remedy": {"policy": "automatic"}}
    assert http.post("/api/v1/alert-rules", json=taking_back).json()["remedy"]["study"] is None
    taking_back["remedy"] = {"rollout": {"canary": 0.5}}
    answer = http.post("/api/v1/alert-rules", json=taking_back)
    assert (answer.status_code, error_of(answer)["detail"]["field"]) == (400, "remedy.rollout.canary")
