"""A method that an address does not take is a 405 that names all it takes."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")


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


@pytest.mark.parametrize(("path", "allowed"), [("/api/v1/tokens/self", "GET"), ("/api/v1/studies/claim", "POST")])
def test_a_word_is_no_number(http: TestClient, path: str, allowed: str) -> None:
    answer = http.patch(path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
