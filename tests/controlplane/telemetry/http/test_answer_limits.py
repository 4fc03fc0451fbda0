"""Answers of more series, bytes or work than a query may take, over HTTP."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from controlplane.contract import metrics
from controlplane.serving.limits import Refused
from controlplane.telemetry.http.telemetry_parts import TelemetryParts
from controlplane.telemetry.queries import budget
from controlplane.telemetry.queries.budget import QueryDesk, QueryLimits

PROTOBUF = {"Content-Type": "application/x-protobuf"}
QUERIES = ("quantiles?metric=ttft", "rates?metric=output_tokens", "rates?metric=ttft", "shares?", "scalars?metric=kv")
NODES = 6


@pytest.fixture
def desk(app: FastAPI) -> Iterator[QueryDesk]:
    """The application's own, whose limits a test sets."""
    yield TelemetryParts.of(app).desk


@pytest.fixture
def sent(api: httpx.Client, make_report: Callable[..., Any], start: datetime) -> None:
    """Node n0 has one request, n1 two, and so on, in each of two windows."""
    for second in (0, 5):
        for number in range(NODES):
            report = make_report(node=f"n{number}", start=start + timedelta(seconds=second))
            report.histogram([0.1] * (number + 1), name=metrics.TTFT.name)
            report.histogram([0.3] * (number + 1), name=metrics.E2E.name)
            report.number(metrics.OUTPUT_TOKENS.name, 100 - number)
            report.number(metrics.REQUESTS.name, number + 1, finish_reason="stop")
            report.number(metrics.KV_USAGE.name, 0.5, kind="gauge")
            answer = api.post("/v1/metrics", content=report.request.SerializeToString(), headers=PROTOBUF)
            assert answer.status_code == 200, answer.text


@pytest.fixture
def ask(api: httpx.Client, sent: None, start: datetime) -> Callable[..., httpx.Response]:
    span = {"start": start.isoformat(), "end": (start + timedelta(seconds=10)).isoformat()}

    def asked(query: str, **more: str) -> httpx.Response:
        path, _, given = query.partition("?")
        params = {**dict(httpx.QueryParams(given)), "by": "node", **span, **more}
        return api.get(f"/api/v1/{path}", params=params)

    return asked


def every_query() -> list[str]:
    kv = metrics.KV_USAGE.short
    return [query.replace("=kv", f"={kv}") for query in QUERIES] + ["heatmap?metric=ttft&step=5s"]


def nodes(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [one["labels"]["node"] for one in answer.json()["series"]]


@pytest.mark.slow
@pytest.mark.parametrize("query", every_query())
def test_of_too_many_series_those_with_the_most_requests_are_answered(
    ask: Callable[..., httpx.Response], desk: QueryDesk, query: str
) -> None:
    whole = ask(query)
    assert len(nodes(whole)) == NODES and whole.json()["left_out"] is None
    desk.limits = QueryLimits(series=2)
    cut = ask(query)
    assert nodes(cut) == ["n4", "n5"], "the order is the labels'"
    assert cut.json()["left_out"]["series"] == NODES - 2 and "top" in cut.json()["left_out"]["mend"]
    assert cut.json()["series"] == [one for one in whole.json()["series"] if one["labels"]["node"] in ("n4", "n5")]
    assert nodes(ask(query, top="1")) == ["n5"]
    assert nodes(ask(query, top="5")) == ["n4", "n5"], "no more than the service gives"
    assert nodes(ask(query, node="n0")) == ["n0"], "a filter gets at what was left out"


def test_an_answer_of_too_many_bytes_or_cells_is_413(ask: Callable[..., httpx.Response], desk: QueryDesk) -> None:
    desk.limits = QueryLimits(answer_bytes=600)
    for query, more in (("rates?metric=output_tokens", {}), ("rates?metric=output_tokens", {"step": "5s"})):
        refused = ask(query, **more)
        assert refused.status_code == 413
        assert refused.json()["error"]["code"] == "too_large" and "shorter span" in refused.json()["error"]["message"]
    assert desk.door.refused == {Refused.ANSWER_BYTES: 2}


def test_the_heavy_queries_of_a_token_are_few_and_light_ones_wait_for_nothing(
    ask: Callable[..., httpx.Response], desk: QueryDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "HEAVY_ROWS", 3 * NODES)  # Rates read tokens and requests, of each node and window.
    desk.enter("token/1")
    desk.enter("token/1")
    try:
        (token,) = desk.heavy
        refused = ask("rates?metric=output_tokens")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
        assert int(refused.headers["Retry-After"]) >= 1
        assert len(nodes(ask("quantiles?metric=ttft"))) == NODES
        assert ask("export?metric=ttft").status_code == 429
    finally:
        desk.leave(token)
        desk.leave(token)
    assert nodes(ask("rates?metric=output_tokens"))
    assert ask("export?metric=ttft").status_code == 200
    assert not desk.heavy, "each has given its place back"


def test_an_export_that_cannot_be_answered_gives_its_place_back(
    ask: Callable[..., httpx.Response], desk: QueryDesk
) -> None:
    for _ in range(5):
        assert ask("export?metric=nothing_like_it").status_code == 400
    assert not desk.heavy


def test_a_query_that_takes_too_long_is_given_up(ask: Callable[..., httpx.Response], desk: QueryDesk) -> None:
    desk.limits = QueryLimits(seconds=-1.0)
    refused = ask("quantiles?metric=ttft")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "deadline_unmet")
    assert desk.door.refused == {Refused.QUERY_TIME: 1}


def test_a_workload_is_whole_or_413(
    api: httpx.Client, desk: QueryDesk, make_spans: Callable[..., Any], start: datetime
) -> None:
    spans = [{"id": f"r{number}", "arrival": start + timedelta(seconds=number)} for number in range(3)]
    body = make_spans("n1", spans).SerializeToString()
    assert api.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200
    asked = {"pool": "chat", "start": start.isoformat(), "end": (start + timedelta(seconds=10)).isoformat()}
    desk.limits = QueryLimits(answer_bytes=3 * budget.CELL_BYTES)
    assert len(api.get("/api/v1/workload", params=asked).json()["requests"]) == 3
    desk.limits = QueryLimits(answer_bytes=2 * budget.CELL_BYTES)
    assert api.get("/api/v1/workload", params=asked).status_code == 413
