"""Rates, shares, heat maps and exemplars over HTTP, of what senders sent."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import numpy as np
import pytest

from controlplane.client import Client
from controlplane.contract import metrics
from controlplane.contract.histogram import RELATIVE_ERROR, upper_edge
from controlplane.contract.step_limits import StepLimit

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def send(api: httpx.Client, request: Any, path: str = "/v1/metrics") -> None:
    answer = api.post(path, content=request.SerializeToString(), headers=PROTOBUF)
    assert answer.status_code == 200, answer.text


@pytest.fixture
def client(api: httpx.Client) -> Client:
    """The typed client on the application in this process."""
    found = Client("http://testserver")
    found.close()
    found._http = api
    return found


@pytest.fixture
def minute(start: datetime) -> dict[str, datetime]:
    return {"start": start, "end": start + timedelta(seconds=60)}


@pytest.mark.slow
def test_rates(client: Client, api: httpx.Client, make_report: Any, start: datetime, minute: Any) -> None:
    for second in range(0, 60, 5):
        for node, tokens in (("a", 50), ("b", 100)):
            report = make_report(node=node, start=start + timedelta(seconds=second))
            report.number(metrics.OUTPUT_TOKENS.name, tokens)
            report.number(metrics.REQUESTS.name, 5, finish_reason="stop")
            report.histogram([0.1, 0.2], name=metrics.TTFT.name)
            send(api, report.request)
    whole = client.rates("output_tokens", **minute)
    assert whole.unit == "{token}/s" and whole.relative_error == 0
    (series,) = whole.series
    assert (series.total, series.seconds, series.per_second, series.requests) == (1800, 60, 30, 120)
    by_node = client.rates("output_tokens", by=["node"], step="30s", **minute)
    assert [(one.labels["node"], one.per_second, one.requests) for one in by_node.series] == [
        ("a", 10, 60),
        ("b", 20, 60),
    ]
    points = by_node.series[0].points
    assert points is not None and [(point.per_second, point.requests) for point in points] == [(10, 30), (10, 30)]
    (only,) = client.rates("requests", node="a", finish_reason="stop", **minute).series
    assert (only.per_second, only.requests) == (1, 60)
    assert client.rates("ttft", **minute).series[0].per_second == pytest.approx(0.8)
    assert client.rates("requests", finish_reason="length", **minute).series == []
    # Nothing is known of the time after the newest report: it is not divided by.
    assert client.rates("requests", start=minute["start"]).series[0].seconds == 60


def test_the_largest_values_add_up_to_what_the_client_reads(
    client: Client, api: httpx.Client, make_report: Any, start: datetime, minute: Any
) -> None:
    """Two finite doubles can add up to infinity, which is no JSON number: what is too large is refused on coming in."""
    for second, tokens, status in ((0, 1e308, 400), (5, 1e308, 400), (10, 1e100, 200), (15, 1e100, 200)):
        report = make_report(start=start + timedelta(seconds=second))
        report.number(metrics.OUTPUT_TOKENS.name, tokens)
        answer = api.post("/v1/metrics", content=report.request.SerializeToString(), headers=PROTOBUF)
        assert answer.status_code == status, answer.text
    (series,) = client.rates("output_tokens", **minute).series
    assert series.total == 2e100


def test_steps_by_what_bound_them(
    client: Client, api: httpx.Client, make_report: Any, start: datetime, minute: Any
) -> None:
    for second in range(0, 60, 5):
        report = make_report(start=start + timedelta(seconds=second))
        for limit, steps in ((StepLimit.KV_MEMORY, 10), (StepLimit.NO_WORK, 30)):
            report.number(metrics.STEP_LIMIT.name, steps, limit=limit.value)
        send(api, report.request)
    answer = client.rates("step_limit", by=["limit"], **minute)
    assert answer.unit == "{step}/s"
    assert {one.labels["limit"]: one.total for one in answer.series} == {"kv_memory": 120, "no_work": 360}
    (only,) = client.rates("step_limit", limit="kv_memory", **minute).series
    assert only.per_second == 2


def test_every_nodes_figures_as_columns(
    client: Client, api: httpx.Client, make_report: Any, start: datetime, minute: Any
) -> None:
    told = {
        "a": ("west", 0.2, 0.5, {metrics.HOST_PRESSURE_CPU: 0.1, metrics.HOST_PRESSURE_IO: 0.3}),
        "b": ("", 0.4, 0, {}),
    }
    for node, (region, ttft, kv_usage, pressures) in told.items():
        report = make_report(node=node, start=start)
        report.histogram([ttft] * 50, name=metrics.TTFT.name, **({"region": region} if region else {}))
        for metric, value in {metrics.KV_USAGE: kv_usage, **pressures}.items():
            report.number(metric.name, value, "gauge")
        send(api, report.request)
    silent = make_report(node="c", start=start)
    silent.number(metrics.WAITING.name, 7, "gauge")
    send(api, silent.request)
    found = client.node_figures(**minute)
    assert (found.node, found.region, found.requests) == (["a", "b", "c"], ["west", "", ""], [50, 50, 0])
    assert found.ttft_p99 == [pytest.approx(0.2, rel=0.03), pytest.approx(0.4, rel=0.03), None]
    assert (found.kv_usage, found.waiting) == ([0.5, 0, None], [None, None, 7])
    assert found.host_pressure == [0.3, None, None]
    assert client.node_figures(node="b", **minute).node == ["b"]


def test_what_trial_nodes_replay_is_told_apart(
    client: Client, api: httpx.Client, make_report: Any, start: datetime, minute: Any
) -> None:
    for node, labels in {"a": {}, "t": {"role": "trial"}}.items():
        report = make_report(node=node, start=start)
        report.histogram([0.2 if node == "a" else 2.0] * 10, name=metrics.TTFT.name, **labels)
        send(api, report.request)
    both = {"a": 10, "t": 10}
    for role, nodes in (("serving", {"a": 10}), ("trial", {"t": 10}), ("any", both), (None, both)):
        answer = client.quantiles("ttft", by=["node"], role=role, **minute)
        assert {one.labels["node"]: one.count for one in answer.series} == nodes
    for role, other, counts in (("serving", "trial", (10, 10)), ("serving", "any", (10, 20))):
        (found,) = client.compare(metric="ttft", q=(0.5,), role=role, b_role=other, **minute).metrics
        assert (found.a_count, found.b_count) == counts


def test_shares_and_what_lies_above(
    client: Client, api: httpx.Client, make_report: Any, start: datetime, minute: Any
) -> None:
    for second, queue in ((0, 0.1), (30, 0.7)):
        report = make_report(start=start + timedelta(seconds=second))
        for metric, value in (
            (metrics.E2E, queue + 0.3),
            (metrics.QUEUE, queue),
            (metrics.PREFILL, 0.2),
            (metrics.DECODE, 0.09),
            (metrics.UNACCOUNTED, 0.01),
        ):
            report.histogram([value], name=metric.name)
        send(api, report.request)
    answer = client.shares(above=0.5, step="30s", **minute)
    (series,) = answer.series
    assert series.requests == 2 and series.e2e_s == pytest.approx(1.4)
    assert series.shares == pytest.approx(
        {"queue": 0.8 / 1.4, "prefill": 2 / 7, "decode": 0.18 / 1.4, "unaccounted": 0.02 / 1.4}
    )
    assert answer.error < 1e-9 and abs(1 - sum(series.shares.values())) < 1e-9
    assert answer.threshold is not None and answer.threshold.edge == 0.5
    assert series.above is not None and (series.above.share, series.above.error) == (0.5, 0)
    assert series.points is not None
    assert [point.above and point.above.above for point in series.points] == [0, 1]
    assert series.points[1].shares["queue"] == pytest.approx(0.7)
    edge = client.shares(above=0.31, metric="queue", **minute).threshold
    assert edge is not None and edge.edge == pytest.approx(0.31, rel=RELATIVE_ERROR / 2)
    assert client.shares(node="absent", **minute).series == []


def test_a_heat_map_counts_everything_once(
    client: Client, api: httpx.Client, make_report: Any, start: datetime, minute: Any
) -> None:
    rng = np.random.default_rng(5)
    by_step: list[Any] = []
    for second in (0, 5, 20):
        values = rng.lognormal(-2, 1.0, 500)
        report = make_report(start=start + timedelta(seconds=second))
        report.histogram(values.tolist())
        send(api, report.request)
        by_step.append(values)
    answer = client.heatmap("ttft", "10s", rows=100, **minute)
    (series,) = answer.series
    assert [column.time - start for column in series.columns] == [timedelta(0), timedelta(seconds=20)]
    assert series.count == 1500 and len(answer.edges) <= 101
    first = np.histogram(np.concatenate(by_step[:2]), answer.edges)[0]
    assert series.columns[0].counts == first.tolist()
    assert series.columns[1].counts == np.histogram(by_step[2], answer.edges)[0].tolist()
    assert all(any(edge == upper_edge(place) for place in range(960)) for edge in answer.edges)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("rates", "metric"),
        ("rates?metric=kv_usage", "metric"),
        ("rates?metric=requests&q=0.5", "q"),
        ("rates?metric=requests&step=7s", "step"),
        ("shares?metric=ttft", "metric"),
        ("shares?metric=ttfx&above=1", "metric"),
        ("shares?above=5000", "above"),
        ("shares?by=bucket", "by"),
        ("heatmap?metric=ttft", "step"),
        ("heatmap?metric=kv_usage&step=10s", "metric"),
        ("exemplars?metric=queue", "metric"),
        ("exemplars?model=m", "model"),
        ("stream?metric=ttft&start=2026-03-01T12:00:00Z", "start"),
        ("stream?query=quantiles&metric=ttfx", "metric"),
        ("stream?query=quantiles&metric=ttft&q=7", "q"),
    ],
)
def test_bad_queries_name_the_parameter(api: httpx.Client, query: str, field: str) -> None:
    response = api.get(f"/api/v1/{query}")
    assert response.status_code == 400, response.text
    assert response.json()["error"]["detail"]["field"] == field


@pytest.mark.parametrize("query", ["heatmap?metric=ttft&step=10s&rows=3", "shares?above=nan", "stream?query=heatmap"])
def test_values_out_of_range_are_refused(api: httpx.Client, query: str) -> None:
    assert api.get(f"/api/v1/{query}").status_code == 400


@pytest.mark.parametrize("path", ["rates", "shares", "heatmap", "exemplars", "stream"])
def test_an_agents_token_reads_nothing(api: httpx.Client, node_token: Callable[[str], str], path: str) -> None:
    agent = {"Authorization": f"Bearer {node_token('n1')}"}
    assert api.get(f"/api/v1/{path}?metric=ttft", headers=agent).status_code == 403


def test_the_requests_behind_a_p99(
    client: Client, api: httpx.Client, make_report: Any, make_spans: Callable[..., Any], start: datetime, minute: Any
) -> None:
    values = [0.01 * place for place in range(1, 101)]
    report = make_report(start=start)
    report.histogram(values)
    send(api, report.request)
    spans = make_spans(
        "n1",
        [
            {"id": f"r{place}", "arrival": start, "parts": {"e2e": value + 1, "ttft": value, "queue": value / 2}}
            for place, value in enumerate(values, 1)
        ],
    )
    for place, span in enumerate(spans.resource_spans[0].scope_spans[0].spans, 1):
        span.trace_id = place.to_bytes(16, "big")
        span.attributes.add(key=metrics.SPAN_BATCH_PREFIX + "running").value.double_value = float(place)
    send(api, spans, "/v1/traces")
    send(api, spans, "/v1/traces")
    p99 = client.quantiles("ttft", (0.99,), **minute).series[0].quantiles["0.99"]
    # The true p99 is 0.99 s; what is opened reaches down by what the quantile may be off by.
    found = client.exemplars("ttft", pool="chat", above=p99 / (1 + RELATIVE_ERROR), **minute).items
    assert [one.request_id for one in found] == ["r100", "r99", "r98", "r97"]
    one = found[0]
    assert one.value == 1.0 and one.parts == {"e2e": 2.0, "ttft": 1.0, "queue": 0.5} and one.batch == {"running": 100.0}
    assert (one.trace_id, one.node, one.revision, one.prompt_bucket) == (
        (100).to_bytes(16, "big").hex(),
        "n1",
        3,
        "<=128",
    )
    assert one.time == start + timedelta(seconds=1) and one.arrival == start
    everything = client.exemplars("ttft", **minute)
    assert [one.request_id for one in everything.items] == [
        "r100",
        "r99",
        "r98",
        "r97",
        "r96",
    ] and everything.next is None
    page = client.exemplars("e2e", limit=2, **minute)
    assert [one.request_id for one in page.items] == ["r100", "r99"]
    rest = client.exemplars("e2e", limit=2, cursor=page.next, **minute)
    assert [one.request_id for one in rest.items] == ["r98", "r97"]
    assert client.exemplars("ttft", pool="other", **minute).items == []
    assert client.exemplars("tpot", **minute).items == []
    (slowest,) = client.requests(order="slowest", limit=1, **minute).items
    assert slowest.trace_id == one.trace_id and slowest.batch == {"running": 100.0}


def test_another_senders_exemplars(
    client: Client, api: httpx.Client, make_report: Any, start: datetime, minute: Any
) -> None:
    report = make_report(node="foreign", start=start)
    point = report.histogram([0.1, 0.9], prompt_bucket="<=2k", model="m")
    time_ns = int((start + timedelta(seconds=3)).timestamp()) * 10**9
    point.exemplars.add(as_double=0.9, trace_id=b"t" * 16, span_id=b"s" * 8, time_unix_nano=time_ns)
    point.exemplars.add(as_double=0.1, time_unix_nano=time_ns)  # Without a trace there is nothing to open.
    send(api, report.request)
    send(api, report.request)
    (one,) = client.exemplars("ttft", **minute).items
    assert (one.value, one.node, one.pool, one.model, one.prompt_bucket) == (0.9, "foreign", "chat", "m", "<=2k")
    assert one.trace_id == (b"t" * 16).hex() and one.request_id == "" and one.parts == {} and one.arrival is None
