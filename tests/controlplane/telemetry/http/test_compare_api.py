"""Two sides over HTTP: revisions, spans, parts; honest where a side has too few requests."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import numpy as np
import pytest

from controlplane.client import Client
from controlplane.contract import metrics

PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture
def client(api: httpx.Client) -> Client:
    found = Client("http://testserver")
    found._http = api
    return found


@pytest.fixture
def reported(api: httpx.Client, make_report: Any, start: datetime) -> datetime:
    """Revision 4 waits twice as long as revision 3; a minute later nobody does."""
    rng = np.random.default_rng(4)
    for second, revision, times in ((0, "3", 1.0), (0, "4", 2.0), (60, "4", 1.0)):
        report = make_report(start=start + timedelta(seconds=second))
        queue = rng.lognormal(-2.0, 0.5, 600) * times
        report.histogram(queue.tolist(), metrics.QUEUE.name, revision=revision)
        report.histogram((queue + 0.05).tolist(), metrics.TTFT.name, revision=revision)
        report.histogram([0.5] * 600, metrics.DECODE.name, revision=revision)
        report.histogram([0.01] * 20, metrics.SEND.name, revision=revision)
        assert api.post("/v1/metrics", content=report.request.SerializeToString(), headers=PROTOBUF).is_success
    return start


def minute(start: datetime) -> dict[str, Any]:
    return {"start": start, "end": start + timedelta(minutes=1)}


def test_a_revision_against_another(client: Client, reported: datetime) -> None:
    found = client.compare("ttft", q=(0.5, 0.95), revision="4", b_revision="3", pool="chat", **minute(reported))
    assert found.a.labels == {"pool": ["chat"], "revision": ["4"]}
    assert found.b.labels == {"pool": ["chat"], "revision": ["3"]} and found.b.start == found.a.start
    assert [one.metric for one in found.metrics] == ["ttft", "queue", "decode", "send"]
    queue = found.metrics[1]
    assert (queue.a_count, queue.b_count) == (600, 600)
    for one in queue.quantiles:
        assert one.ratio is not None and one.a is not None and one.difference is not None
        assert one.differs and one.ratio.low < 2.0 < one.ratio.high and one.a.low < one.a.value < one.a.high
        assert one.difference.low > 0.0
    assert queue.quantiles[0].sentence.startswith("p50 of queue: ") and "times as much (" in queue.quantiles[0].sentence
    assert not any(one.differs for one in found.metrics[2].quantiles)
    assert "no difference beyond chance" in found.metrics[2].quantiles[0].sentence


def test_a_side_with_too_few_has_no_interval_and_says_how_many_it_wants(client: Client, reported: datetime) -> None:
    found = client.compare("send", q=(0.99,), revision="4", b_revision="9", **minute(reported))
    (one,) = found.metrics[0].quantiles
    assert one.a_value == pytest.approx(0.01, rel=0.03) and one.b_value is None
    assert one.a is one.b is one.difference is one.ratio is one.differs is None and one.needed == 368
    assert one.sentence == "p99 of send: 20 values against 0 are too few to say; each side wants 368."


def test_another_time_is_as_long_as_the_first(client: Client, reported: datetime) -> None:
    found = client.compare("ttft", q=(0.5,), revision="4", b_start=reported + timedelta(minutes=1), **minute(reported))
    assert found.b.end - found.b.start == timedelta(minutes=1) and found.metrics[0].quantiles[0].differs
    before = client.compare("ttft", q=(0.5,), b_end=reported, **minute(reported))
    assert before.b.start == reported - timedelta(minutes=1) and before.metrics[0].b_count == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("metric=ttft", "b_start"),
        ("revision=3&b_revision=3", "b_start"),
        ("b_revision=3&q=1", "q"),
        ("b_revision=3&metric=running", "metric"),
        ("b_revision=3&metric=ttfx", "metric"),
        ("b_start=yesterday", "b_start"),
        ("b_start=2026-03-01T12:00:00Z&b_end=2026-03-01T11:00:00Z", "b_end"),
        ("b_revision=3&level=2", "query.level"),
    ],
)
def test_what_compares_nothing_is_refused(api: httpx.Client, query: str, field: str) -> None:
    answer = api.get(f"/api/v1/compare?{query}")
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["detail"]["field"] == field


def test_an_agents_token_compares_nothing(api: httpx.Client, node_token: Callable[[str], str]) -> None:
    agent = {"Authorization": f"Bearer {node_token('n1')}"}
    assert api.get("/api/v1/compare?b_revision=3", headers=agent).status_code == 403
