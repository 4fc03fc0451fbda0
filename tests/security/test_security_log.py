"""Who comes, who is refused and whose input is refused is in the log: over HTTP, with the service as it runs."""

import logging
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from controlplane.api.error_handlers import error_response
from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.auth import guard
from controlplane.auth.watch.sensitive_reads import SENSITIVE
from controlplane.serving.host_gate import HostGate
from controlplane.serving.site_gate import SiteGate

LINE = re.compile(r"(let in|read|refused|input refused|session begun): (.*?)(?: again=(\d+))?")
AT = "address=testclient"


@pytest.fixture
def http(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[TestClient]:
    caplog.set_level(logging.INFO, "controlplane.auth")
    (tmp_path / "metrics").write_text("the-token-of-a-scraper")
    (tmp_path / "metrics").chmod(0o600)
    settings = ServiceSettings(data_dir=tmp_path / "d", log_level="error", metrics_token_file=tmp_path / "metrics")
    app = create_app(settings)
    door = Service.of(app).door
    named = HostGate(SiteGate(app, door, error_response), {"testserver"}, door, error_response)
    with TestClient(app) as client:
        client.headers["Authorization"] = f"Bearer {(tmp_path / 'd' / 'admin-token').read_text().strip()}"
        client.gated = TestClient(named)  # type: ignore[attr-defined]
        yield client


def token(http: TestClient, scope: str) -> dict[str, str]:
    made = http.post("/api/v1/tokens", json={"name": f"{scope}-token", "scope": scope}).json()
    return {"Authorization": f"Bearer {made['token']}"}


def lines(caplog: pytest.LogCaptureFixture, what: str) -> Counter[str]:
    """How often each was told; a line of repeats counts as so many."""
    found: Counter[str] = Counter()
    for message in caplog.messages:
        line = LINE.fullmatch(message)
        if line is not None and line[1] == what:
            found[line[2]] += int(line[3] or 1)
    return found


def test_everybody_who_is_let_in_is_told_with_holder_session_and_address(
    http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    reads, reports = token(http, "read"), token(http, "agent")
    for _ in range(3):
        assert http.get("/api/v1/nodes", headers=reads).status_code == 200
        assert http.post("/v1/metrics", headers=reports, content=b"").status_code in (200, 400, 415)
    with http.websocket_connect("/v1/opamp", headers=reports):
        pass
    code = http.post("/api/v1/sign-in-codes", headers=reads).json()["code"]
    secret = http.post("/api/v1/sessions", json={"code": code}, headers={"Authorization": ""}).json()["secret"]
    assert http.get("/api/v1/nodes", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    assert guard.scopes_of(Service.of(http.app), [secret])[secret] == "read"  # type: ignore[arg-type]
    assert http.get("/metrics", headers={"Authorization": "Bearer the-token-of-a-scraper"}).status_code == 200
    numbers = {item["name"]: item["id"] for item in http.get("/api/v1/tokens").json()["items"]}
    Service.of(http.app).security_log.tell_all()  # type: ignore[arg-type]
    by_token = {name: f"actor='{name}' holder=token/{numbers[name]}" for name in ("admin", "read-token", "agent-token")}
    assert lines(caplog, "let in") == {
        f"{by_token['admin']} {AT} scope=admin": 3,
        f"{by_token['read-token']} {AT} scope=read": 4,
        f"{by_token['agent-token']} {AT} scope=agent": 4,
        f"{by_token['read-token']} session=1 {AT} scope=read": 1,
        f"{by_token['read-token']} session=1 address=dashboard scope=read": 1,
        f"actor='metrics_token_file' holder=- {AT} scope=-": 1,
    }
    assert lines(caplog, "session begun") == {f"{by_token['read-token']} session=1 {AT}": 1}


def test_every_refusal_is_told_with_its_reason_actor_and_route(
    http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    reads = token(http, "read")
    nobody, guess = {"Authorization": ""}, {"Authorization": "Bearer guess"}
    number = http.get("/api/v1/tokens/self", headers=reads).json()["id"]
    assert http.get("/api/v1/nodes", headers=nobody).status_code == 401
    assert http.get("/api/v1/nodes/n1", headers=guess).status_code == 401
    assert http.post("/v1/metrics", headers=guess).status_code == 401
    with pytest.raises(WebSocketDisconnect), http.websocket_connect("/v1/opamp", headers=guess):
        pass
    assert http.delete("/api/v1/tokens/1", headers=reads).status_code == 403
    assert http.post("/v1/metrics", headers=reads).status_code == 403
    assert http.put("/api/v1/nodes", headers=nobody).status_code == 405
    assert http.get("/metrics", headers=guess).status_code == 401
    assert http.post("/api/v1/sessions", json={"code": "x" * 20}, headers=nobody).status_code in (400, 401)
    gated: TestClient = http.gated  # type: ignore[attr-defined]
    assert gated.post("/api/v1/tokens", headers={"Origin": "http://evil.example"}).status_code == 403
    assert gated.get("/api/v1/nodes", headers={"Host": "evil.example"}).status_code == 421
    assert guard.scopes_of(Service.of(http.app), ["tailwright_session_" + "x" * 43]) != {}  # type: ignore[arg-type]
    who, reader = f"actor='-' holder=- {AT}", f"actor='read-token' holder=token/{number} {AT}"
    told = lines(caplog, "refused")
    told.pop(f"reason=no_token {who} route='POST /api/v1/sessions'", None)
    assert told == {
        f"reason=no_token {who} route='GET /api/v1/nodes'": 1,
        f"reason=unknown_token {who} route='GET /api/v1/nodes/{{node}}'": 1,
        f"reason=unknown_token {who} route='POST /v1/metrics'": 1,
        f"reason=unknown_token {who} route='GET /v1/opamp'": 1,
        f"reason=forbidden {reader} route='DELETE /api/v1/tokens/{{token_id:int}}'": 1,
        f"reason=forbidden {reader} route='POST /v1/metrics'": 1,
        f"reason=method {who} route='PUT /api/v1/nodes'": 1,
        f"reason=unknown_token {who} route='GET /metrics'": 1,
        f"reason=cross_site {who} route='-'": 1,
        f"reason=host {who} route='-'": 1,
        "reason=unknown_token actor='-' holder=- address=dashboard route='-'": 1,
    }


def test_input_that_is_refused_is_told_by_its_fields_and_not_its_values(
    http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    reports = token(http, "agent")
    wrong = [
        ("/api/v1/tokens", {"json": {"name": "hunter2", "scope": "hunter2"}}, "body.scope"),
        ("/api/v1/tokens", {"json": {"name": 7, "scope": "hunter2"}}, "body.name, body.scope"),
        ("/api/v1/tokens", {"json": {"name": "a", "scope": "read", "nmae": "hunter2"}}, "body.nmae"),
        ("/api/v1/tokens", {"content": b"{hunter2", "headers": {"Content-Type": "application/json"}}, "body"),
        ("/api/v1/tokens", {"content": b"hunter2", "headers": {"Content-Type": "text/plain"}}, "Content-Type"),
        ("/api/v1/tokens", {"json": {"name": "tailwright", "scope": "read"}}, "name"),
    ]
    for path, sent, _ in wrong:
        assert http.post(path, **sent).status_code in (400, 415)  # type: ignore[arg-type]
    content = {"content": b"hunter2", "headers": {"Content-Type": "application/x-protobuf", **reports}}
    assert http.post("/v1/metrics", **content).status_code == 400  # type: ignore[arg-type]
    with pytest.raises(WebSocketDisconnect), http.websocket_connect("/v1/opamp", headers=reports) as socket:
        socket.send_bytes(b"hunter2")
        socket.receive_bytes()
    told = {line.partition(" address=")[0] + line.partition(AT)[2]: count for line, count in lines(
        caplog, "input refused").items()}  # fmt: skip
    numbers = {item["name"]: item["id"] for item in http.get("/api/v1/tokens").json()["items"]}
    admin, agent = (
        f"actor='admin' holder=token/{numbers['admin']}",
        f"actor='agent-token' holder=token/{numbers['agent-token']}",
    )
    fields = [*(field for _, _, field in wrong)]
    made = {f"fields='{field}' {admin} route='POST /api/v1/tokens'": 1 for field in fields}
    assert {line: told.get(line) for line in made} == made
    others = [line for line in told if line not in made]
    assert len(others) == 2 and all(agent in line for line in others), others
    assert "hunter2" not in "".join(caplog.messages)


@pytest.mark.slow
def test_no_decision_is_left_out_however_they_are_mixed(http: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    """As many as were made, by kind: what has no line is in a line's count."""
    reads, nobody, guess = token(http, "read"), {"Authorization": ""}, {"Authorization": "Bearer guess"}
    caplog.clear()
    drawn, made = random.Random(3), Counter[str]()
    service = Service.of(http.app)  # type: ignore[arg-type]
    service.security_log.tell_all()
    caplog.clear()
    for _ in range(150):
        headers, path, kind = drawn.choice(
            [
                (reads, "/api/v1/nodes", "let in"),
                (reads, "/api/v1/ledger", "let in"),
                (nobody, "/api/v1/nodes", "refused"),
                (guess, "/api/v1/ledger", "refused"),
                (reads, "/api/v1/nodes?limit=no", "input refused"),
            ]
        )
        http.get(path, headers=headers)
        made[kind] += 1
        made["let in"] += kind == "input refused"
        if drawn.random() < 0.05:
            service.security_log.tell_due()
    service.security_log.tell_all()
    assert {kind: lines(caplog, kind).total() for kind in made} == made
    assert len(caplog.messages) < 100


@pytest.mark.slow
def test_reading_what_is_sensitive_is_recorded_without_what_was_read(
    http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    document = http.app.openapi()["paths"]  # type: ignore[attr-defined]
    assert {re.sub(":[a-z]+}", "}", path) for path in SENSITIVE} <= {
        path for path, does in document.items() if "get" in does
    }
    reads = token(http, "read")
    number = http.get("/api/v1/tokens/self", headers=reads).json()["id"]
    for route in sorted(SENSITIVE):
        path = route.replace("{request_id:path}", "4711").replace("{person_id:int}", "1").replace("{name}", "support")
        for _ in range(3):
            http.get(path)
        http.get(path, headers=reads)
        http.get(path, headers={"Authorization": ""})
    for path in ("/api/v1/nodes", "/api/v1/configs", "/api/v1/fleet"):
        assert http.get(path).status_code == 200
    Service.of(http.app).security_log.tell_all()  # type: ignore[arg-type]
    told, admin, reader = lines(caplog, "read"), f"actor='admin' holder=token/1 {AT}", f"holder=token/{number} {AT}"
    assert {line: count for line, count in told.items() if line.startswith(admin)} == {
        f"{admin} route='GET {route}'": 3 for route in SENSITIVE
    }
    refused = {"/api/v1/tokens", "/api/v1/people", "/api/v1/prompt-sets/{name}/text"}
    assert {line for line in told if not line.startswith(admin)} == {
        f"actor='read-token' {reader} route='GET {route}'" for route in SENSITIVE - refused
    }
    assert "4711" not in "".join(caplog.messages)


def test_what_a_page_shows_of_another_s_answer_is_recorded_too(
    http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    service, reads = Service.of(http.app), token(http, "read")  # type: ignore[arg-type]
    code = http.post("/api/v1/sign-in-codes", headers=reads).json()["code"]
    secret = http.post("/api/v1/sessions", json={"code": code}).json()["secret"]
    guard.scopes_of(service, [secret])
    number = http.get("/api/v1/tokens/self", headers=reads).json()["id"]
    for path in ("/api/v1/requests/4711", "/api/v1/ledger", "/api/v1/nodes", "/api/v1/nodes/n1"):
        guard.read_on_page(service, secret, path)
    guard.read_on_page(service, "unknown", "/api/v1/ledger")
    who = f"actor='read-token' holder=token/{number} session=1 address=dashboard"
    assert lines(caplog, "read") == {
        f"{who} route='GET /api/v1/requests/{{request_id:path}}'": 1,
        f"{who} route='GET /api/v1/ledger'": 1,
        "actor='-' holder=- address=dashboard route='GET /api/v1/ledger'": 1,
    }
