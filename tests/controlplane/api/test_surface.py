"""The fixed URLs are there, documented, and guarded."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

OPEN = {"/healthz", "/readyz"}
FIXED = {
    "/v1/metrics": "post",
    "/v1/traces": "post",
    "/v1/opamp": "post",
    "/healthz": "get",
    "/readyz": "get",
    "/api/v1/quantiles": "get",
    "/api/v1/scalars": "get",
    "/api/v1/rates": "get",
    "/api/v1/shares": "get",
    "/api/v1/heatmap": "get",
    "/api/v1/stream": "get",
    "/api/v1/exemplars": "get",
    "/api/v1/export": "get",
    "/api/v1/workload": "get",
    "/api/v1/requests": "get",
    "/api/v1/nodes": "get",
    "/api/v1/nodes/{node}": "get",
    "/api/v1/nodes/{node}/trial-config": "put",
    "/api/v1/enrol": "post",
    "/api/v1/configs": "get post",
    "/api/v1/configs/{number}": "get",
    "/api/v1/alerts": "get",
    "/api/v1/alert-rules": "get post",
    "/api/v1/destinations": "get post",
    "/api/v1/deliveries": "get",
    "/api/v1/silences": "get post",
    "/api/v1/studies": "get post",
    "/api/v1/studies/claim": "post",
    "/api/v1/rollouts": "get post",
    "/api/v1/ledger": "get",
    "/api/v1/tokens": "get post",
    "/api/v1/tokens/self": "get",
}


@pytest.mark.parametrize("path", FIXED)
def test_the_document_lists_every_fixed_url(app: FastAPI, path: str) -> None:
    document = app.openapi()
    assert path in document["paths"]
    for method in FIXED[path].split():
        operation = document["paths"][path][method]
        assert operation["tags"], f"{method} {path} stands under no heading"


def test_the_document_has_a_title_and_a_page(app: FastAPI, http: TestClient) -> None:
    document = app.openapi()
    assert document["info"]["title"] == "Tailwright"
    assert document["info"]["description"]
    assert http.get("/docs").status_code == 200


def test_prometheus_has_its_page(http: TestClient) -> None:
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_everything_but_health_needs_a_token(app: FastAPI) -> None:
    stranger = TestClient(app, raise_server_exceptions=False)
    for path, operations in app.openapi()["paths"].items():
        if path in OPEN or path.startswith("/failing"):
            continue
        for method in operations:
            url = "/".join("1" if part.startswith("{") else part for part in path.split("/"))
            answer = stranger.request(method, url)
            assert answer.status_code == 401, f"{method} {path}: {answer.status_code} {answer.text}"


def test_read_cannot_write(app: FastAPI) -> None:
    token = (app.state.settings.data_dir / "dashboard-token").read_text().strip()
    reader = TestClient(app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {token}"})
    assert reader.get("/api/v1/nodes").status_code == 200
    for path, operations in app.openapi()["paths"].items():
        for method in set(operations) - {"get"}:
            url = "/".join("1" if part.startswith("{") else part for part in path.split("/"))
            answer = reader.request(method, url)
            assert answer.status_code in (400, 403), f"{method} {path}: {answer.status_code} {answer.text}"
            if answer.status_code == 400:
                assert "required" in answer.text or "body" in answer.text
