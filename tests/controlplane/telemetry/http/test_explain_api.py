"""A box over HTTP: what it is compared with, what is refused, and what an empty one is answered."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from controlplane.client import Client
from controlplane.contract.metrics import HOST_STEAL, STEP_LIMIT
from controlplane.telemetry.http import explain_endpoints

PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture
def client(api: httpx.Client) -> Client:
    found = Client("http://testserver")
    found._http = api
    return found


@pytest.fixture
def logged(api: httpx.Client, make_spans: Callable[..., Any], start: datetime) -> datetime:
    """Of four nodes gpu-3 is slow, from the second minute on; each tells how many requests ran."""
    for node in range(4):
        spans = []
        for place in range(120):
            slow = node == 3 and place >= 60
            ttft = (2.0 if slow else 0.2) + 0.001 * place
            spans.append(
                {
                    "id": f"{node}-{place}",
                    "arrival": start + timedelta(seconds=place),
                    "parts": {"e2e": ttft + 1.0, "ttft": ttft, "prefill": ttft, "decode": 1.0},
                    "batch": {"running": float(place % 5)},
                    "finish_reason": "abort" if place % 10 == 9 else "stop",
                }
            )
        body = make_spans(f"gpu-{node}", spans).SerializeToString()
        assert api.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200
    return start


def span(start: datetime, first: int, last: int) -> dict[str, datetime]:
    return {"start": start + timedelta(seconds=first), "end": start + timedelta(seconds=last)}


def test_the_slow_node_is_named(client: Client, logged: datetime) -> None:
    found = client.explain("ttft", low=1.0, **span(logged, 0, 300))
    assert (found.inside.found, found.outside.found) == (54, 3 * 108 + 54), "aborted ones are in no histogram"
    first = found.factors[0]
    assert (first.factor, first.label, first.named, first.values[0].value) == ("node", True, True, "gpu-3")
    assert first.sentence.startswith(
        "100 % of the requests inside ran on gpu-3, 14 % of those outside: 86 points more ("
    )
    assert not any(one.named for one in found.factors[1:]) and "running" in {one.factor for one in found.factors}
    assert {one.part for one in found.parts} == {"ttft", "prefill", "decode", "e2e"}
    assert found.parts[-1].part == "decode" and found.parts[-1].difference_s == 0.0
    inside = client.requests(metric="ttft", low=1.0, timed_by="completion", limit=500, **span(logged, 0, 300)).items
    assert {one.node for one in inside} == {"gpu-3"}, "its requests are listed by the same parameters"


@pytest.mark.slow
def test_what_the_node_went_through_is_a_factor_of_its_own(
    client: Client, api: httpx.Client, logged: datetime, make_report: type[Any]
) -> None:
    """In the minute in which a node is slow, KV memory binds its steps and others take its CPU."""
    for node in range(4):
        for window in range(26):
            report = make_report(f"gpu-{node}", start=logged + timedelta(seconds=5 * window))
            bad = node == 3 and window >= 12
            report.number(STEP_LIMIT.name, 90, limit="kv_memory" if bad else "no_work")
            report.number(STEP_LIMIT.name, 10, limit="no_work" if bad else "chunk")
            report.number(HOST_STEAL.name, 0.4 if bad else 0.01, kind="gauge")
            body = report.request.SerializeToString()
            assert api.post("/v1/metrics", content=body, headers=PROTOBUF).status_code == 200
    found = client.explain("ttft", low=1.0, **span(logged, 0, 300))
    by_name = {one.factor: one for one in found.factors}
    limit, host = by_name["step_limit"], by_name["host_state"]
    assert limit.named and not limit.label and limit.inside + limit.outside == 54 + 3 * 108 + 54
    assert {(one.value, one.share_inside, one.share_outside) for one in limit.values} == {
        ("kv_memory", 1.0, 0.0),
        ("no_work", 0.0, 1.0),
    }
    assert host.named and host.sentence.startswith(
        "100 % of the requests inside waited while the host of their node was busy, 0 % of those outside"
    )


def test_before_is_as_much_time_with_all_its_values(client: Client, logged: datetime) -> None:
    found = client.explain("ttft", low=1.0, against="before", **span(logged, 60, 120))
    assert found.outside.start == logged and found.outside.end == found.inside.start
    assert found.outside.found == 4 * 54
    node = found.factors[0].values[0]
    assert (node.value, node.share_inside, node.share_outside) == ("gpu-3", 1.0, 0.25)


def test_filters_hold_on_both_sides_and_leave_no_factor(client: Client, logged: datetime) -> None:
    found = client.explain("ttft", low=1.0, node=["gpu-2", "gpu-3"], **span(logged, 0, 300))
    assert found.inside.found + found.outside.found == 2 * 108
    alone = client.explain("ttft", low=1.0, node="gpu-3", **span(logged, 0, 300))
    assert "node" not in {one.factor for one in alone.factors}


@pytest.mark.slow
def test_an_empty_box_says_so(client: Client, logged: datetime) -> None:
    found = client.explain("ttft", low=900.0, **span(logged, 0, 300))
    assert (found.sentence, found.factors) == ("No request of the log lies in this box.", [])
    old = client.explain("ttft", low=1.0, **span(logged - timedelta(days=30), 0, 300))
    assert old.sentence == "No request of the log lies in this box; it reaches less far back."


def test_above_the_most_a_sample_is_looked_at_and_that_is_said(
    client: Client, logged: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain_endpoints, "MOST", 200)
    found = client.explain("ttft", low=1.0, **span(logged, 0, 300))
    assert found.inside.looked_at == found.inside.found == 54
    assert 80 <= found.outside.looked_at <= 100 < found.outside.found
    assert f"(a uniform sample of 54 and {found.outside.looked_at} was looked at)" in found.sentence
    assert found.factors[0].values[0].value == "gpu-3"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("metric=ttft", "low"),
        ("low=1&high=1", "high"),
        ("low=2&high=1", "low"),
        ("low=-1", "query.low"),
        ("low=nan", "query.low"),
        ("metric=itl&low=1", "metric"),
        ("low=1&against=after", "query.against"),
        ("low=1&revision=x", "revision"),
        ("low=1&start=2026-03-01T12:00:00Z&end=2026-03-01T11:00:00Z", "end"),
    ],
)
def test_a_bad_box_names_the_parameter(api: httpx.Client, query: str, field: str) -> None:
    answer = api.get(f"/api/v1/explain?{query}")
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["detail"]["field"] == field


def test_an_agents_token_explains_nothing(api: httpx.Client, node_token: Callable[[str], str]) -> None:
    agent = {"Authorization": f"Bearer {node_token('n1')}"}
    for path in ("explain?low=1", "request-facets", "requests/r"):
        assert api.get(f"/api/v1/{path}", headers=agent).status_code == 403
