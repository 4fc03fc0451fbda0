"""The stream over a real server: events as they come, resumption, the end at the service's stop."""

import socket
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from httpx_sse import EventSource

from controlplane.auth import browser_sessions
from controlplane.auth import store as tokens
from controlplane.auth.tables import TokenRow
from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.telemetry import QuantilesAnswer
from controlplane.db.database import Database
from controlplane.telemetry.queries import feeds
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_metrics
from tests.keyrings import keyring_of


@pytest.fixture
def url(app: FastAPI, stop: threading.Event) -> Iterator[str]:
    """The application under uvicorn."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        listening.listen()
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        stop.set()
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "a stream has kept the server from ending"


@pytest.fixture
def reader(url: str, database: Database, start: datetime) -> Iterator[Client]:
    with database.session() as session:
        _, token = tokens.issue(session, name="reader", scope=Scope.READ, now=start)
    with Client(url, token) as client:
        yield client


def report(store: TelemetryStore, make_report: Any, time: datetime, values: list[float]) -> None:
    made = make_report(start=time)
    made.histogram(values)
    ingest_metrics(store, made.request)


def test_each_new_window_is_an_event_and_what_was_missed_comes_first(
    reader: Client, store: TelemetryStore, make_report: Any, start: datetime
) -> None:
    report(store, make_report, start, [0.1])
    answers = reader.stream("quantiles", "ttft", window="1m", q=(0.5,))
    first = next(answers)
    assert isinstance(first.answer, QuantilesAnswer) and first.answer.series[0].count == 1
    assert first.answer.end == start + timedelta(seconds=5) and first.id == str(int(first.answer.end.timestamp()))
    assert first.answer.start == start - timedelta(seconds=55)
    for second in (5, 10):
        report(store, make_report, start + timedelta(seconds=second), [0.2])
        assert next(answers).answer.end == start + timedelta(seconds=second + 5)
    resumed = reader.stream("quantiles", "ttft", window="1m", q=(0.5,), last_id=first.id)
    missed = list(islice(resumed, 2))
    assert [one.answer.end - start for one in missed] == [timedelta(seconds=10), timedelta(seconds=15)]
    assert [one.answer.series[0].count for one in missed] == [2, 3]
    answers.close()  # type: ignore[attr-defined]
    resumed.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("query", "metric"), [("rates", "ttft"), ("shares", None), ("quantiles", "ttft")])
def test_the_event_is_the_querys_own_answer(
    reader: Client, store: TelemetryStore, make_report: Any, start: datetime, query: str, metric: str | None
) -> None:
    report(store, make_report, start, [0.1, 0.3])
    streamed = next(reader.stream(query, metric, window="30s", by=["node"])).answer
    labels: dict[str, Any] = {"start": streamed.end - timedelta(seconds=30), "end": start + timedelta(seconds=5)}
    asked = getattr(reader, query)
    assert streamed == (asked(by=["node"], **labels) if metric is None else asked(metric, by=["node"], **labels))


def test_a_stop_of_the_service_ends_the_stream(reader: Client, stop: threading.Event) -> None:
    with reader._http.stream("GET", "/api/v1/stream", params={"metric": "ttft"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = EventSource(response).iter_sse()
        assert next(found).event == "quantiles"
        stop.set()
        assert list(found) == []


def test_too_many_listeners_are_refused_until_one_leaves(
    reader: Client, monkeypatch: pytest.MonkeyPatch, wait_for: Callable[..., object]
) -> None:
    monkeypatch.setattr(feeds, "LISTENERS", 1)
    with reader._http.stream("GET", "/api/v1/stream", params={"metric": "ttft"}) as response:
        found = EventSource(response).iter_sse()  # Held: the connection lives as long as somebody may read on.
        assert next(found).event == "quantiles"
        refused = reader._http.get("/api/v1/stream", params={"metric": "ttft"})
        assert refused.status_code == 429 and int(refused.headers["Retry-After"].split(".")[0]) >= 1

    def status() -> int:
        with reader._http.stream("GET", "/api/v1/stream", params={"metric": "ttft"}) as again:
            return again.status_code

    wait_for("the place is free again", lambda: status() == 200, 20)


def test_heartbeats_keep_a_silent_stream_awake(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastapi.routing._PING_INTERVAL", 0.01)
    with reader._http.stream("GET", "/api/v1/stream", params={"metric": "ttft"}) as response:
        lines = response.iter_lines()
        while not next(lines).startswith(":"):
            pass


def test_the_whole_service_has_the_stream(reader: Client) -> None:
    assert httpx.get(f"{reader._http.base_url}/openapi.json").json()["paths"]["/api/v1/stream"]


@pytest.mark.parametrize("how", ["the session is ended", "the token expires"])
def test_a_stream_ends_with_the_session_or_the_token_that_listens(
    url: str, database: Database, start: datetime, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "QUIET_S", 0.05)
    with database.session() as session:
        view = tokens.issue(session, name="reader", scope=Scope.READ, now=start)[0]
        secret = browser_sessions.begin(session, start, token_id=view.id).secret
    with (
        Client(url, secret) as client,
        client._http.stream("GET", "/api/v1/stream", params={"metric": "ttft"}) as response,
    ):
        found = EventSource(response).iter_sse()
        assert next(found).event == "quantiles"
        with database.session() as session:
            if how == "the session is ended":
                (open_one,) = browser_sessions.listing(
                    session, keyring_of(database), start, before_id=None, limit=9, of=None, asks=None
                )
                browser_sessions.end(session, open_one.id)
            else:
                session.get_one(TokenRow, view.id).expires_at = start
        assert [event.event for event in found] == ["error"]
