"""One request over HTTP: found as long as anything has it, with who shared its time and what is usual."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlmodel import delete

from controlplane.client import Client
from controlplane.contract import metrics
from controlplane.contract.errors import NotFound
from controlplane.db.database import Database
from controlplane.telemetry.tables import RequestRow

PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture
def client(api: httpx.Client) -> Client:
    found = Client("http://testserver")
    found._http = api
    return found


@pytest.fixture
def send(api: httpx.Client) -> Callable[[str, Any], None]:
    def send(path: str, request: Any) -> None:
        assert api.post(path, content=request.SerializeToString(), headers=PROTOBUF).status_code == 200

    return send


def parts(queue: float, prefill: float, decode: float) -> dict[str, float]:
    return {"e2e": queue + prefill + decode, "queue": queue, "prefill": prefill, "decode": decode, "ttft": prefill}


def test_a_request_is_there_with_its_peers(
    client: Client, send: Callable[..., None], make_spans: Callable[..., Any], start: datetime
) -> None:
    def at(seconds: float) -> datetime:
        return start + timedelta(seconds=seconds)

    spans = [
        {"id": "slow/1 é", "arrival": at(0), "parts": parts(2.0, 1.0, 3.0), "tenant": "acme", "cached": 60},
        {"id": "before", "arrival": at(-10), "parts": parts(0.0, 1.0, 8.5)},
        {"id": "blocker", "arrival": at(-30), "parts": parts(0.0, 31.0, 1.0), "prompt": 9000},
        {"id": "beside", "arrival": at(2), "parts": parts(0.0, 1.0, 3.5)},
        {"id": "after", "arrival": at(6), "parts": parts(0.0, 1.0, 1.0)},
    ]
    send("/v1/traces", make_spans("n1", spans))
    send("/v1/traces", make_spans("n2", [{"id": "elsewhere", "arrival": at(0), "parts": parts(2.0, 1.0, 3.0)}]))
    found = client.request("slow/1 é")
    assert (found.request.request_id, found.request.tenant, found.source) == ("slow/1 é", "acme", "log")
    assert (found.prompt_bucket, found.cache_class, found.others) == ("<=128", "hit", [])
    shared = [(one.request_id, one.overlap_s, one.while_queued_s) for one in found.peers]
    assert shared == [("beside", 4.0, 0.0), ("blocker", 0.0, 2.0)] and found.peers_found == 2 and found.peers_all
    assert found.peers[1].prompt_tokens == 9000 and found.peers[1].parts["prefill"] == 31.0
    assert found.typical.parts == {} and found.typical.pool == "chat"


def test_what_is_usual_is_of_the_pool_and_prompt_bucket(
    client: Client, send: Callable[..., None], make_report: Any, make_spans: Callable[..., Any], start: datetime
) -> None:
    send("/v1/traces", make_spans("n1", [{"id": "r", "arrival": start, "prompt": 1000}]))
    for node, pool, bucket, value in (
        ("n1", "chat", "<=2k", 0.2),
        ("n2", "chat", "<=2k", 0.4),
        ("n3", "chat", "<=2k", 0.8),
        ("n4", "chat", "<=128", 9.0),
        ("n5", "other", "<=2k", 9.0),
    ):
        report = make_report(node=node, pool=pool, start=start + timedelta(minutes=5))
        report.histogram([value] * 10, metrics.QUEUE.name, prompt_bucket=bucket)
        send("/v1/metrics", report.request)
    typical = client.request("r").typical
    assert set(typical.parts) == {"queue"} and typical.prompt_bucket == "<=2k"
    assert typical.parts["queue"].requests == 30
    assert typical.parts["queue"].median_s == pytest.approx(0.4, rel=typical.relative_error)


def test_of_several_with_one_id_the_newest_unless_another_is_named(
    client: Client, send: Callable[..., None], make_spans: Callable[..., Any], start: datetime
) -> None:
    for place, node in enumerate(("a", "b", "a")):
        send("/v1/traces", make_spans(node, [{"id": "same", "arrival": start + timedelta(seconds=place)}]))
    newest = client.request("same")
    assert newest.request.arrival == start + timedelta(seconds=2)
    assert [(one.node, one.arrival) for one in newest.others] == [
        ("b", start + timedelta(seconds=1)),
        ("a", start),
    ]
    assert client.request("same", node="b").request.node == "b"
    assert client.request("same", node="a", arrival=start).request.arrival == start
    with pytest.raises(NotFound, match="of this node and arrival"):
        client.request("same", node="b", arrival=start)


def test_a_request_that_only_the_exemplars_have_is_there(
    client: Client, send: Callable[..., None], make_spans: Callable[..., Any], start: datetime, database: Database
) -> None:
    send("/v1/traces", make_spans("n1", [{"id": "old", "arrival": start}, {"id": "peer", "arrival": start}]))
    with database.session() as session:
        session.execute(delete(RequestRow))
    found = client.request("old")
    assert (found.source, found.request.node, found.request.parts["e2e"]) == ("exemplars", "n1", 1.5)
    assert found.peers == [] and found.others == []
    with pytest.raises(NotFound, match="neither in the log nor among the exemplars"):
        client.request("never")


def test_pages_and_counts_over_http(
    client: Client, api: httpx.Client, send: Callable[..., None], make_spans: Callable[..., Any], start: datetime
) -> None:
    spans = [
        {
            "id": f"r{place}",
            "arrival": start,
            "parts": {"e2e": 2.0, "ttft": 0.1 * place},
            "revision": str(3 + place % 2),
        }
        for place in range(6)
    ]
    send("/v1/traces", make_spans("n1", spans))
    minute: dict[str, Any] = {"start": start, "end": start + timedelta(minutes=1)}
    page = client.requests(revision=["3", "4"], metric="ttft", low=0.15, order="slowest", limit=3, **minute)
    assert [one.request_id for one in page.items] == ["r5", "r4", "r3"] and page.next == "3"
    rest = client.requests(metric="ttft", low=0.15, order="slowest", limit=3, cursor=page.next, **minute)
    assert [one.request_id for one in rest.items] == ["r2"] and rest.next is None
    assert client.requests(end=start + timedelta(seconds=2), start=start, timed_by="completion").items == []
    counts = client.request_facets(revision="3", metric="ttft", low=0.15, **minute)
    by_label = {one.label: {value.value: value.requests for value in one.values} for one in counts.facets}
    assert (counts.found, counts.matching) == (4, 2)
    assert by_label["revision"] == {"3": 2, "4": 2} and by_label["node"] == {"n1": 2}
    assert by_label["tenant"] == {"": 2} and by_label["region"] == {"": 2}
    for query, field in (("metric=itl", "metric"), ("low=2&high=1", "low"), ("prompt_bucket=x", "prompt_bucket")):
        for path in ("requests", "request-facets"):
            answer = api.get(f"/api/v1/{path}?{query}")
            assert answer.status_code == 400 and answer.json()["error"]["detail"]["field"] == field
