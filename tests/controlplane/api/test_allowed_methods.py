"""A method that an address does not take is a 405 that names all it takes."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.auth.turned_away import Reason

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")


@pytest.mark.slow
def test_every_address_tells_its_methods(app: FastAPI, http: TestClient) -> None:
    for path, operations in app.openapi()["paths"].items():
        url = "/".join("1" if part.startswith("{") else part for part in path.split("/"))
        taken = {method.upper() for method in operations}
        for method in METHODS:
            if method in taken:
                continue
            answer = http.request(method, url)
            assert answer.status_code == 405, f"{method} {url}: {answer.status_code} {answer.text}"
            assert answer.headers["Allow"] == ", ".join(sorted(taken))


def test_a_method_that_there_is_not_is_counted(app: FastAPI, http: TestClient) -> None:
    counts = app.state.service.turned_away.counts
    before = counts[Reason.METHOD]
    assert http.get("/api/v1/nodes").status_code == 200 and counts[Reason.METHOD] == before
    assert http.delete("/api/v1/nodes").status_code == 405 and counts[Reason.METHOD] == before + 1


@pytest.mark.parametrize(("path", "allowed"), [("/api/v1/tokens/self", "GET"), ("/api/v1/studies/claim", "POST")])
def test_a_word_is_no_number(http: TestClient, path: str, allowed: str) -> None:
    answer = http.patch(path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
