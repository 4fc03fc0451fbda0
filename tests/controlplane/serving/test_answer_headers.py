"""What is added to an answer, and what an answer says for itself."""

import pytest
from starlette.responses import Response
from starlette.testclient import TestClient

from controlplane.serving.answer_headers import AnswerHeaders
from controlplane.serving.browser_policy import HEADERS, POLICY


def answered(**headers: str) -> Response:
    return Response("x", headers={name.replace("_", "-"): value for name, value in headers.items()})


def test_every_answer_has_them_and_is_not_kept() -> None:
    answer = TestClient(AnswerHeaders(answered())).get("/")
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert answer.headers["Cache-Control"] == "no-store"


def test_an_answer_may_say_otherwise() -> None:
    answer = TestClient(AnswerHeaders(answered(Referrer_Policy="same-origin"))).get("/")
    assert answer.headers.get_list("Referrer-Policy") == ["same-origin"]


@pytest.mark.parametrize("header", [{"ETag": '"1"'}, {"Cache_Control": "public, max-age=5"}])
def test_what_says_how_it_may_be_kept_is_let_be(header: dict[str, str]) -> None:
    assert "no-store" not in TestClient(AnswerHeaders(answered(**header))).get("/").headers.get("Cache-Control", "")


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://tailwright.example", "max-age=31536000; includeSubDomains"),
        ("https://tailwright.example:7300", "max-age=31536000; includeSubDomains"),
        ("http://tailwright.example", None),  # RFC 6797, 7.2: never in clear.
        ("https://localhost:7300", None),
        ("https://127.0.0.1", None),
    ],
)
def test_who_came_by_tls_is_told_to_come_so(url: str, wanted: str | None) -> None:
    answer = TestClient(AnswerHeaders(answered()), base_url=url).get("/")
    assert answer.headers.get("Strict-Transport-Security") == wanted


@pytest.mark.parametrize(
    ("path", "headers", "wanted"),
    [
        ("/api/v1/nodes", {"Content-Type": "application/json"}, 'attachment; filename="api.json"'),
        ("/api/v1/export", {"Content-Type": "application/json", "Content-Disposition": "attachment"}, "attachment"),
        ("/api/v1/stream", {"Content-Type": "text/event-stream"}, None),
        ("/readyz", {"Content-Type": "application/json"}, None),
        ("/", {"Content-Type": "text/html"}, None),
    ],
)
def test_an_answer_of_the_api_is_no_page(path: str, headers: dict[str, str], wanted: str | None) -> None:
    answer = TestClient(AnswerHeaders(Response("{}", headers=headers))).get(path)
    assert answer.headers.get("Content-Disposition") == wanted


def test_no_script_runs_but_files_of_this_server() -> None:
    assert "unsafe" not in POLICY and "script-src 'self';" in POLICY and "*" not in POLICY
    assert all(name in POLICY for name in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"))
