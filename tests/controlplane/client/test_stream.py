"""Following a stream: each answer once, across lost connections; errors of the query are raised."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice

import httpx
import pytest

from controlplane.client import Client, stream
from controlplane.contract.bodies.telemetry import RatesAnswer
from controlplane.contract.errors import BadRequest, Unauthenticated

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}


def event(number: int) -> bytes:
    answer = RatesAnswer(metric="requests", unit="1/s", start=START, end=START, series=[])
    return f"event: rates\ndata: {answer.model_dump_json()}\nid: {number}\n\n".encode()


class Broken(httpx.SyncByteStream):
    """Sends some events, and then the connection is lost."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        yield from self._parts
        raise httpx.ReadError("lost")


def follow(
    handler: Callable[[httpx.Request], httpx.Response], monkeypatch: pytest.MonkeyPatch
) -> tuple[Iterator[stream.Streamed], list[float]]:
    waits: list[float] = []
    real = stream.follow
    monkeypatch.setattr(stream, "follow", lambda *given, **named: real(*given, **named, sleep=waits.append))
    client = Client("http://service", "t", transport=httpx.MockTransport(handler))
    return client.stream("rates", "requests", window="1m", by=("node", "pool"), q=(0.5, 0.9)), waits


def test_it_goes_on_where_it_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Last-Event-ID", ""))
        assert dict(request.url.params) == {
            "query": "rates", "metric": "requests", "window": "1m", "by": "node,pool", "q": "0.5,0.9",
        }  # fmt: skip
        if len(seen) == 1:
            return httpx.Response(
                200, headers=EVENTS, stream=Broken(event(5), b": ping\n\n", event(10), b"event: rates\ndata: {cut")
            )
        if len(seen) == 2:
            raise httpx.ConnectError("away")
        if len(seen) == 3:
            return httpx.Response(503, json={"error": {"code": "unavailable", "message": "starting"}})
        return httpx.Response(200, headers=EVENTS, content=event(15))

    answers, waits = follow(handler, monkeypatch)
    found = list(islice(answers, 3))
    assert [one.id for one in found] == ["5", "10", "15"]
    assert all(isinstance(one.answer, RatesAnswer) for one in found)
    assert seen == ["", "10", "10", "10"] and waits == [1.0, 2.0, 4.0]


def test_a_service_that_is_full_is_tried_again_when_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_left = [httpx.Response(200, headers=EVENTS, content=event(5))]

    def handler(_: httpx.Request) -> httpx.Response:
        full = {"error": {"code": "overloaded", "message": "full"}}
        if answers_left and not waits:
            return httpx.Response(429, json=full, headers={"Retry-After": "7"})
        return answers_left.pop()

    answers, waits = follow(handler, monkeypatch)
    assert next(answers).id == "5" and waits == [7.0]


@pytest.mark.parametrize(
    ("status", "code", "expected"), [(400, "bad_request", BadRequest), (401, "unauthenticated", Unauthenticated)]
)
def test_errors_of_the_query_are_raised(
    status: int, code: str, expected: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, _ = follow(lambda _: httpx.Response(status, json={"error": {"code": code, "message": "no"}}), monkeypatch)
    with pytest.raises(expected):
        next(answers)


def test_an_error_within_the_stream_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(BadRequest("step: over", field="step").body())
    content = f"event: error\ndata: {body}\n\n"
    answers, _ = follow(lambda _: httpx.Response(200, headers=EVENTS, content=content), monkeypatch)
    with pytest.raises(BadRequest, match="step: over") as raised:
        next(answers)
    assert raised.value.detail == {"field": "step"}
