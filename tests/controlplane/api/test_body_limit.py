"""Bodies over the limit are refused before they are read whole."""

from collections.abc import Iterator

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from controlplane.api.body_limit import BodyLimit

LIMIT = 1000


@pytest.fixture(scope="module")
def http() -> TestClient:
    app = FastAPI()
    app.add_middleware(BodyLimit, limit_bytes=LIMIT, exempt=("/exempt",))

    @app.post("/limited")
    @app.post("/exempt")
    async def size(request: Request) -> int:
        return len(await request.body())

    return TestClient(app)


def pieces(total: int) -> Iterator[bytes]:
    for start in range(0, total, 100):
        yield b"x" * min(100, total - start)


@pytest.mark.parametrize(("size", "status"), [(0, 200), (LIMIT, 200), (LIMIT + 1, 413), (50 * LIMIT, 413)])
def test_the_limit_holds_with_and_without_a_length(http: TestClient, size: int, status: int) -> None:
    for content in (b"x" * size, pieces(size)):
        answer = http.post("/limited", content=content)
        assert answer.status_code == status
        if status == 200:
            assert answer.json() == size
        else:
            assert answer.json()["error"]["code"] == "too_large"


def test_exempt_paths_have_limits_of_their_own(http: TestClient) -> None:
    assert http.post("/exempt", content=b"x" * (5 * LIMIT)).json() == 5 * LIMIT


def test_a_length_that_is_no_number_is_refused(http: TestClient) -> None:
    answer = http.post("/limited", content=b"", headers={"Content-Length": "many"})
    assert answer.status_code == 400
