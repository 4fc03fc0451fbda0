"""A JSON route takes JSON, says so before anybody parses it, and never fails over what a body is made of."""

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from controlplane.api.json_body import DEEPEST

SILENCES = "/api/v1/silences"
JSON = {"Content-Type": "application/json"}


def json_routes(app: FastAPI) -> list[tuple[str, str]]:
    """Method and path of each route that the OpenAPI document gives a JSON body."""
    paths = app.openapi()["paths"]
    return [
        (method, "/".join("1" if part.startswith("{") else part for part in path.split("/")))
        for path, operations in paths.items()
        for method, operation in operations.items()
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    ]


@pytest.mark.slow
def test_every_json_route_refuses_other_content_types(app: FastAPI, http: TestClient) -> None:
    routes = json_routes(app)
    assert len(routes) >= 12
    for method, path in routes:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            answer = http.request(method, path, content=b"[" * 100_000, headers={"Content-Type": kind})
            assert (answer.status_code, answer.json()["error"]["detail"]["field"]) == (415, "Content-Type"), (
                path,
                kind,
            )


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_taken_however_it_is_written(http: TestClient, kind: str) -> None:
    answer = http.post("/api/v1/configs", content=b'{"knobs": {"max_num_seqs": 7}}', headers={"Content-Type": kind})
    assert answer.status_code in (200, 201), answer.text


@pytest.mark.parametrize("depth", [DEEPEST + 1, 200, 500, 800, 900, 950, 990, 1000, 5000, 100_000])
@pytest.mark.parametrize("shape", [("[", "]"), ('{"a":', "}")])
def test_deep_bodies_are_bad_requests(http: TestClient, depth: int, shape: tuple[str, str]) -> None:
    opening, closing = shape
    inner = opening * depth + "1" + closing * depth
    for path, body in ((SILENCES, inner), ("/api/v1/configs", f'{{"knobs": {{"max_num_seqs": {inner}}}}}')):
        answer = http.post(path, content=body.encode(), headers=JSON)
        assert (answer.status_code, answer.json()["error"]["detail"]["field"]) == (400, "body")


def test_a_route_without_a_body_takes_any_type(http: TestClient) -> None:
    answer = http.post("/api/v1/rollouts/1/start", content=b"x", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 404


def test_after_a_500_the_connection_says_that_it_closes(http: TestClient) -> None:
    answer = http.get("/failing/surprise")
    assert (answer.status_code, answer.headers["Connection"]) == (500, "close")


def test_all_routes_with_a_body_are_json_or_read_it_themselves(app: FastAPI) -> None:
    taken: set[Any] = {path for _, path in json_routes(app)}
    for route in app.routes:
        if isinstance(route, APIRoute) and route.body_field is not None and route.include_in_schema:
            assert "/".join("1" if part.startswith("{") else part for part in route.path.split("/")) in taken
