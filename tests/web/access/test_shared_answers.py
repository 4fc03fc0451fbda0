"""What viewers share: GETs of what every session of a scope is answered alike, for a moment; nothing else."""

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.access import Scope
from tests.controlplane.api.test_surface import BY_SCOPE
from web.access.shared_answers import (
    KEPT_S,
    SHARED,
    ChangingTransport,
    Kept,
    SharedAnswers,
    SharingTransport,
    is_shared,
)

URL = "http://service"


class Counted(httpx.BaseTransport):
    """Answers each request with its number, and remembers which there were."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.raw_path.decode()}")
        return httpx.Response(self.status, json={"number": len(self.asked)})


def viewer(inner: httpx.BaseTransport, answers: SharedAnswers, scope: Scope = Scope.READ) -> httpx.Client:
    return httpx.Client(base_url=URL, transport=SharingTransport(inner, answers, scope))


@pytest.mark.parametrize("path", [*SHARED, "/api/v1/nodes/gpu-1", "/api/v1/quantiles?metric=ttft&window=900s"])
def test_what_one_was_answered_is_answered_to_the_next(path: str) -> None:
    inner, answers = Counted(), SharedAnswers()
    assert [viewer(inner, answers).get(path).json()["number"] for _ in range(3)] == [1, 1, 1]
    assert inner.asked == [f"GET {path}"]


APART = {
    *("/api/v1/stream", "/api/v1/export"),  # They have no end, or are long: nobody keeps one whole.
}


def test_whatever_a_reader_may_get_is_shared_or_said_not_to_be() -> None:
    """What a new domain answers all alike must not be asked for by each viewer because nobody has thought of it."""
    gets = {
        path for path in (one.split()[1] for one in BY_SCOPE["read"] if one.startswith("get ")) if path not in APART
    }
    assert len(gets) > 30
    assert [path for path in sorted(gets) if not is_shared(path)] == []
    assert [path for path in sorted(APART) if is_shared(path)] == []


def test_a_name_that_only_begins_like_a_shared_one_is_not_shared() -> None:
    assert is_shared("/api/v1/nodes/gpu-1") and not is_shared("/api/v1/nodes-of-mine")


MINE = (
    "/api/v1/sessions",
    "/api/v1/sessions/self",
    "/api/v1/tokens/self",
    "/api/v1/tokens",
    "/api/v1/people",
    "/metrics",
)


@pytest.mark.parametrize("path", MINE)
def test_what_depends_on_who_asks_is_asked_by_each(path: str) -> None:
    inner, answers = Counted(), SharedAnswers()
    assert [viewer(inner, answers).get(path).json()["number"] for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD"])
def test_what_changes_something_is_never_shared(method: str) -> None:
    inner, answers = Counted(), SharedAnswers()
    for _ in range(2):
        viewer(inner, answers).request(method, "/api/v1/nodes")
    assert inner.asked == [f"{method} /api/v1/nodes"] * 2


def test_another_scope_and_another_query_are_other_answers() -> None:
    inner, answers = Counted(), SharedAnswers()
    assert viewer(inner, answers, Scope.READ).get("/api/v1/nodes").json()["number"] == 1
    assert viewer(inner, answers, Scope.ADMIN).get("/api/v1/nodes").json()["number"] == 2
    assert viewer(inner, answers, Scope.READ).get("/api/v1/nodes?pool=chat").json()["number"] == 3


@pytest.mark.parametrize("status", [400, 401, 404, 500, 503])
def test_a_refusal_is_not_kept(status: int) -> None:
    inner, answers = Counted(status), SharedAnswers()
    assert [viewer(inner, answers).get("/api/v1/nodes").status_code for _ in range(2)] == [status, status]
    assert len(inner.asked) == 2


def test_an_error_is_each_ones_own_and_leaves_the_way_free() -> None:
    answers = SharedAnswers()

    def fails() -> Kept:
        raise httpx.ConnectError("refused")

    for _ in range(2):
        with pytest.raises(httpx.ConnectError):
            answers.answer(("read", URL), fails)
    assert answers.answer(("read", URL), lambda: Kept(200, [], b"now")).body == b"now"


def test_many_who_ask_meanwhile_wait_for_one_answer() -> None:
    answers, begun, go_on = SharedAnswers(), threading.Event(), threading.Event()
    asked: list[int] = []

    def ask() -> Kept:
        asked.append(1)
        begun.set()
        assert go_on.wait(30)
        return Kept(200, [], b"one")

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(answers.answer, ("read", URL), ask) for _ in range(8)]
        assert begun.wait(30)
        # Another address is not held up by it.
        assert answers.answer(("read", URL + "/other"), lambda: Kept(200, [], b"other")).body == b"other"
        go_on.set()
        assert {one.result(30).body for one in waiting} == {b"one"} and len(asked) == 1


@given(st.lists(st.floats(0, 2 * KEPT_S), min_size=1, max_size=20))
def test_no_answer_is_older_than_is_kept(waits_s: list[float]) -> None:
    now_s = 0.0
    answers = SharedAnswers(lambda: now_s)

    def ask() -> Kept:
        return Kept(200, [], str(now_s).encode())

    for wait_s in waits_s:
        now_s += wait_s
        made = answers.answer(("read", URL), ask)
        assert now_s - float(made.body) < KEPT_S


def test_who_changes_something_sees_what_came_of_it() -> None:
    inner, answers = Counted(), SharedAnswers()
    look, act = viewer(inner, answers), httpx.Client(base_url=URL, transport=ChangingTransport(inner, answers))
    assert look.get("/api/v1/rollouts").json()["number"] == 1
    assert act.get("/api/v1/rollouts").json()["number"] == 2
    assert look.get("/api/v1/rollouts").json()["number"] == 1
    act.post("/api/v1/rollouts/1/start")
    assert look.get("/api/v1/rollouts").json()["number"] == 4


def test_what_was_asked_before_a_change_is_not_kept_after_it() -> None:
    answers = SharedAnswers()

    def changed_meanwhile() -> Kept:
        answers.forget()
        return Kept(200, [], b"before")

    assert answers.answer(("read", URL), changed_meanwhile).body == b"before"
    assert answers.answer(("read", URL), lambda: Kept(200, [], b"after")).body == b"after"


def test_an_answer_is_read_in_plain_whatever_its_coding_was() -> None:
    def compressed(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=gzip.compress(b'{"a": 1}'))

    client = viewer(httpx.MockTransport(compressed), SharedAnswers())
    assert [client.get("/api/v1/nodes").json() for _ in range(2)] == [{"a": 1}] * 2


def test_who_is_answered_without_asking_is_told_of() -> None:
    inner, answers, told = Counted(), SharedAnswers(), list[tuple[str, str]]()
    for who in ("ann", "bob"):
        tell = partial(lambda reader, path: told.append((reader, path)), who)
        browser = httpx.Client(base_url=URL, transport=SharingTransport(inner, answers, Scope.READ, tell))
        for path in ("/api/v1/ledger?limit=3", "/api/v1/tokens"):
            browser.get(path)
    assert told == [("bob", "/api/v1/ledger")]
    assert len(inner.asked) == 3
