"""What an answer means: taken, to be tried again, or never to be taken."""

from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import pytest

from controlplane.outgoing import ANYWHERE, Answer, new_client
from controlplane.telemetry.forwarding import attempt
from controlplane.telemetry.forwarding.attempt import Refused, Undelivered, post
from tests.hostile_receiver import HostileReceiver

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def sent(answer: Callable[[httpx.Request], httpx.Response]) -> Answer:
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        return post(http, "http://there/", b"body", {"X-Own": "1"}, lambda: NOW)


def test_what_is_taken_comes_back() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=request.content + request.headers["X-Own"].encode())

    assert sent(answer).body == b"body1"


@pytest.mark.parametrize("status", [301, 401, 403, 404, 408, 429, 500, 502, 503])
def test_what_may_be_mended_is_tried_again(status: int) -> None:
    with pytest.raises(Undelivered) as error:
        sent(lambda _: httpx.Response(status, headers={"Retry-After": "7"}, text="a secret"))
    assert (error.value.kind, error.value.retry_after_s) == (f"HTTP {status}", 7.0)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_body_at_fault_is_refused_for_good(status: int) -> None:
    with pytest.raises(Refused, match="what was wrong"):
        sent(lambda _: httpx.Response(status, text="what was wrong"))


@pytest.mark.parametrize("behaviour", ["never answers", "drips its headers", "drips its body"])
def test_a_receiver_that_drips_is_tried_again_later(behaviour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "DEADLINE_S", 0.2)
    with (
        HostileReceiver(behaviour) as receiver,
        new_client(60.0, ANYWHERE) as http,
        pytest.raises(Undelivered) as error,
    ):
        post(http, receiver.url, b"body", {}, lambda: NOW)
    assert error.value.kind == "DeadlineExceeded"


def test_of_a_bomb_the_beginning_is_read_as_it_came() -> None:
    with HostileReceiver("sends a bomb") as receiver, new_client(60.0, ANYWHERE) as http:
        answer = post(http, receiver.url, b"body", {}, lambda: NOW)
    assert len(answer.body) == attempt.MOST_BYTES


def test_a_connection_that_fails_is_tried_again() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow")

    with pytest.raises(Undelivered) as error:
        sent(answer)
    assert error.value.kind == "ReadTimeout"
