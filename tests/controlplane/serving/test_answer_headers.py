"""What is added to an answer, and what an answer says for itself."""

import pytest
from starlette.responses import Response
from starlette.testclient import TestClient

from controlplane.serving.answer_headers import HEADERS, POLICY, AnswerHeaders


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


def test_no_script_runs_but_files_of_this_server() -> None:
    assert "unsafe" not in POLICY and "script-src 'self';" in POLICY and "*" not in POLICY
    assert all(name in POLICY for name in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"))
