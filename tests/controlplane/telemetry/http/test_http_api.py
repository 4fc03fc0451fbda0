"""The domain over HTTP: what goes in as OTLP comes out as quantiles and requests, and errors name their field."""

import gzip
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import numpy as np
import pytest
import zstandard
from fastapi import FastAPI
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from controlplane.contract import metrics
from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.telemetry.journal import content_encoding
from controlplane.telemetry.otlp import otlp_bodies
from controlplane.telemetry.queries import parameters
from controlplane.telemetry.values.magnitude import LARGEST

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


def send(api: httpx.Client, request: Any, path: str = "/v1/metrics", **headers: str) -> httpx.Response:
    return api.post(path, content=request.SerializeToString(), headers=PROTOBUF | headers)


def partial(response: httpx.Response) -> tuple[int, str]:
    assert response.status_code == 200, response.text
    answer = ExportMetricsServiceResponse.FromString(response.content)
    return answer.partial_success.rejected_data_points, answer.partial_success.error_message


@pytest.mark.parametrize("value", [1.7e308, -1.7e308, 1.1 * LARGEST])
@pytest.mark.parametrize("kind", ["sum", "gauge"])
def test_numbers_whose_sums_would_be_infinite_break_no_answer(
    api: httpx.Client, make_report: Any, start: datetime, value: float, kind: str
) -> None:
    """Two nodes, each with a finite number; all that is asked is added up over them."""
    metric = metrics.REQUESTS if kind == "sum" else metrics.RUNNING
    for node in ("a", "b"):
        report = make_report(node=node, start=start)
        report.number(metric.name, value, kind=kind)
        report.number(metrics.OUTPUT_TOKENS.name, 7)
        count, told = partial(send(api, report.request))
        assert count == 1 and "at most 1e+100" in told
    for path in ("rates", "scalars"):
        for by in ({}, {"by": "pool"}):
            answer = api.get(f"/api/v1/{path}", params={"metric": metric.short, "window": "10m", **by})
            assert answer.status_code in ((200,) if (path, kind) != ("rates", "gauge") else (200, 400)), answer.text
            assert "null" not in json.dumps(answer.json().get("series", []))
    rates = api.get("/api/v1/rates", params={"metric": metrics.OUTPUT_TOKENS.short, "window": "10m"})
    assert [one["total"] for one in rates.json()["series"]] == [14.0]


@pytest.mark.slow
@pytest.mark.parametrize("scale", [5, 8])
def test_quantiles_are_within_the_stated_error(
    api: httpx.Client, make_report: Any, start: datetime, scale: int
) -> None:
    rng = np.random.default_rng(7)
    values = rng.lognormal(-1.5, 0.9, 20_000)
    for i, part in enumerate(np.array_split(values, 40)):
        report = make_report(node=f"n{i % 4}", start=start + timedelta(seconds=5 * (i // 4)))
        report.histogram(part.tolist(), scale=scale)
        assert partial(send(api, report.request)) == (0, "")
    answer = api.get("/api/v1/quantiles", params={"metric": "ttft", "q": "0.5,0.95,0.99", "window": "10m"}).json()
    assert answer["metric"] == "ttft" and answer["unit"] == "s"
    assert answer["relative_error"] == RELATIVE_ERROR
    (series,) = answer["series"]
    assert series["count"] == 20_000 and series["labels"] == {}
    assert series["mean"] == pytest.approx(values.mean(), rel=1e-9)
    for q, estimate in series["quantiles"].items():
        assert estimate == pytest.approx(float(np.quantile(values, float(q))), rel=RELATIVE_ERROR)


def test_coarse_buckets_show_their_own_error_by_series(api: httpx.Client, make_report: Any, start: datetime) -> None:
    exact, scraped, open_ended = (make_report(node=name) for name in ("exact", "scraped", "open"))
    exact.histogram([0.1, 0.2])
    for report, counts in ((scraped, [0, 3, 2, 0]), (open_ended, [0, 3, 2, 1])):
        point = report._stamp(report._data(metrics.TTFT.name, "histogram").data_points.add(), {})
        point.explicit_bounds.extend([0.25, 0.5, 0.75])
        point.bucket_counts.extend(counts)
        point.count, point.sum = sum(counts), 2.5
    for report in (exact, scraped, open_ended):
        assert send(api, report.request).status_code == 200
    asked = {"metric": "ttft", "start": start.isoformat(), "by": "node"}
    answer = api.get("/api/v1/quantiles", params=asked | {"end": (start + timedelta(seconds=60)).isoformat()}).json()
    errors = {series["labels"]["node"]: series["relative_error"] for series in answer["series"]}
    # The widest occupied bucket: 0.25 to 0.5 s. Above the last bound nothing is known of a value's size.
    assert errors == {"exact": RELATIVE_ERROR, "scraped": pytest.approx(1.0), "open": pytest.approx(9.0)}
    assert answer["relative_error"] == pytest.approx(9.0)


def test_groups_filters_and_steps(api: httpx.Client, make_report: Any, start: datetime) -> None:
    for i in range(6):
        for node in ("a", "b"):
            report = make_report(node=node, start=start + timedelta(seconds=5 * i))
            report.histogram([0.1, 0.2], model="m", prompt_bucket="<=128")
            report.histogram([0.4], model="m", prompt_bucket=">32k")
            send(api, report.request)
    span = {"start": start.isoformat(), "end": (start + timedelta(seconds=30)).isoformat(), "metric": "ttft"}
    by = api.get("/api/v1/quantiles", params=span | {"by": "node,prompt_bucket"}).json()["series"]
    assert [(one["labels"]["node"], one["labels"]["prompt_bucket"], one["count"]) for one in by] == [
        ("a", "<=128", 12), ("a", ">32k", 6), ("b", "<=128", 12), ("b", ">32k", 6),
    ]  # fmt: skip
    (only,) = api.get("/api/v1/quantiles", params=span | {"node": "a", "prompt_bucket": ">32k"}).json()["series"]
    assert only["count"] == 6
    (both,) = api.get("/api/v1/quantiles", params=span | {"node": ["a", "b"], "step": "10s"}).json()["series"]
    assert [(point["time"], point["count"]) for point in both["points"]] == [
        ((start + timedelta(seconds=10 * i)).isoformat().replace("+00:00", "Z"), 12) for i in range(3)
    ]
    assert api.get("/api/v1/quantiles", params=span | {"node": "absent"}).json()["series"] == []
    # A window belongs to a span when its own start does.
    cut = span | {"end": (start + timedelta(seconds=6)).isoformat()}
    assert api.get("/api/v1/quantiles", params=cut).json()["series"][0]["count"] == 12


def test_sums_and_gauges(api: httpx.Client, make_report: Any, start: datetime) -> None:
    for i in range(4):
        for node, usage in (("a", 0.2), ("b", 0.6)):
            report = make_report(node=node, start=start + timedelta(seconds=5 * i))
            report.number(metrics.OUTPUT_TOKENS.name, 50)
            report.number(metrics.KV_USAGE.name, usage + i / 100, kind="gauge")
            assert partial(send(api, report.request)) == (0, "")
    span = {"start": start.isoformat(), "end": (start + timedelta(seconds=20)).isoformat()}
    tokens = api.get("/api/v1/scalars", params=span | {"metric": "output_tokens", "step": "10s"}).json()
    assert tokens["kind"] == "sum" and tokens["unit"] == "{token}"
    assert tokens["series"][0]["value"] == 400 and tokens["series"][0]["per_second"] == 20
    assert [point["value"] for point in tokens["series"][0]["points"]] == [200, 200]
    usage = api.get("/api/v1/scalars", params=span | {"metric": "kv_usage", "by": "node"}).json()
    assert [one["value"] for one in usage["series"]] == pytest.approx([0.23, 0.63])
    assert usage["series"][0]["per_second"] is None
    fleet = api.get("/api/v1/scalars", params=span | {"metric": "kv_usage", "step": "5s"}).json()["series"][0]
    assert fleet["value"] == pytest.approx(0.43)
    assert [point["value"] for point in fleet["points"]] == pytest.approx([0.40, 0.41, 0.42, 0.43])


def test_one_bad_point_leaves_the_others(api: httpx.Client, make_report: Any) -> None:
    report = make_report()
    report.histogram([0.1, 0.2])
    report.histogram([0.1], name=metrics.E2E.name).sum = float("nan")
    report.histogram([0.3], name=metrics.ITL.name).count = 7
    report.number(metrics.OUTPUT_TOKENS.name, 5)
    rejected, message = partial(send(api, report.request))
    assert rejected == 2
    assert "gen_ai.server.request.duration: sum is nan" in message
    assert "tailwright.request.inter_token_latency: count is 7" in message
    (series,) = api.get("/api/v1/quantiles", params={"metric": "ttft", "window": "15m"}).json()["series"]
    assert series["count"] == 2
    assert api.get("/api/v1/scalars", params={"metric": "output_tokens", "window": "15m"}).json()["series"]


def test_a_report_with_nothing_to_keep_is_a_400(api: httpx.Client, make_report: Any) -> None:
    report = make_report()
    report.histogram([0.1]).max = float("inf")
    response = send(api, report.request)
    assert response.status_code == 400
    assert "gen_ai.server.time_to_first_token: max is inf" in response.json()["error"]["message"]


def test_json_and_its_single_bad_points(api: httpx.Client, make_report: Any) -> None:
    report = make_report()
    report.histogram([0.1, 0.2], model="m")
    report.number(metrics.OUTPUT_TOKENS.name, 5)
    tree = json_format.MessageToDict(report.request)
    points = tree["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["exponentialHistogram"]["dataPoints"]
    points[0]["exemplars"] = [{"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174"}]
    points.append({**points[0], "count": -4})
    tree["resourceMetrics"][0]["somethingNew"] = 1
    response = api.post("/v1/metrics", content=json.dumps(tree), headers=JSON)
    assert response.status_code == 200 and response.headers["content-type"] == "application/json"
    answer = response.json()["partialSuccess"]
    assert int(answer["rejectedDataPoints"]) == 1
    assert "exponentialHistogram.dataPoints" in answer["errorMessage"] and "count" in answer["errorMessage"]
    (series,) = api.get("/api/v1/quantiles", params={"metric": "ttft", "window": "15m"}).json()["series"]
    assert series["count"] == 2


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity"])
def test_encodings(api: httpx.Client, make_report: Any, encoding: str) -> None:
    report = make_report()
    report.histogram([0.1])
    body = report.request.SerializeToString()
    packed = {"gzip": gzip.compress, "zstd": zstandard.compress, "identity": bytes}[encoding](body)
    assert api.post("/v1/metrics", content=packed, headers=PROTOBUF | {"Content-Encoding": encoding}).status_code == 200


@pytest.mark.parametrize(
    ("body", "headers", "status", "field"),
    [
        (b"\xff\xff\xff", PROTOBUF, 400, "body"),
        (b"not gzip", PROTOBUF | {"Content-Encoding": "gzip"}, 400, "body"),
        (gzip.compress(b"x" * 100)[:-20], PROTOBUF | {"Content-Encoding": "gzip"}, 400, "body"),
        (b"not zstd", PROTOBUF | {"Content-Encoding": "zstd"}, 400, "body"),
        (b"", PROTOBUF | {"Content-Encoding": "br"}, 415, "Content-Encoding"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "Content-Type"),
        (b"{", JSON, 400, "body"),
        (b"[" * 100_000, JSON, 400, "body"),
        (b"[]", JSON, 400, "body"),
        (b'{"resourceMetrics": 3}', JSON, 400, "body"),
        (b'{"resourceMetrics": [3]}', JSON, 400, "body"),
        (b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": {"name": 1}}]}]}', JSON, 400, "resource_metrics"),
        (b"x" * (otlp_bodies.LIMIT_BODY + 1), PROTOBUF, 413, "body"),
        (
            gzip.compress(bytes(content_encoding.LIMIT_DECODED + 1)),
            PROTOBUF | {"Content-Encoding": "gzip"},
            413,
            "body",
        ),
        (
            zstandard.compress(bytes(content_encoding.LIMIT_DECODED + 1)),
            PROTOBUF | {"Content-Encoding": "zstd"},
            413,
            "body",
        ),
    ],
)
def test_malformed_bodies(api: httpx.Client, body: bytes, headers: dict[str, str], status: int, field: str) -> None:
    response = api.post("/v1/metrics", content=body, headers=headers)
    assert response.status_code == status, response.text
    assert response.json()["error"]["detail"]["field"] == field


def test_a_bound_token_speaks_for_its_node_only(
    app: FastAPI, api: httpx.Client, make_report: Any, node_token: Callable[[str], str]
) -> None:
    agent = {"Authorization": f"Bearer {node_token('n1')}"}
    mine, theirs = make_report(node="n1"), make_report(node="n2")
    mine.histogram([0.1])
    theirs.histogram([0.2])
    refused = send(api, theirs.request, **agent)
    assert refused.status_code == 403 and refused.json()["error"]["detail"]["field"] == "service.instance.id"
    mine.request.MergeFrom(theirs.request)
    rejected, message = partial(send(api, mine.request, **agent))
    assert rejected == 1 and "service.instance.id" in message and "'n2'" in message
    # An attribute of a point cannot speak for another node either.
    disguised = make_report(node="n1")
    disguised.histogram([0.3], node="n2", model="m")
    send(api, disguised.request, **agent)
    series = api.get("/api/v1/quantiles", params={"metric": "ttft", "by": "node", "window": "15m"}).json()["series"]
    assert [(one["labels"]["node"], one["count"]) for one in series] == [("n1", 2)]
    assert api.get("/api/v1/quantiles", params={"metric": "ttft"}, headers=agent).status_code == 403
    assert api.post("/v1/metrics", headers={"Authorization": "Bearer x"}).status_code == 401


@pytest.mark.parametrize(
    ("query", "field", "hint"),
    [
        ("", "metric", "ttft"),
        ("metric=ttfx", "metric", "'ttft'"),
        ("metric=kv_usage", "metric", "scalars"),
        ("metric=ttft&nod=a", "nod", "'node'"),
        ("metric=ttft&by=bucket", "by", "'prompt_bucket'"),
        ("metric=ttft&q=1.5", "q", "1.5"),
        ("metric=ttft&q=nan", "q", "nan"),
        ("metric=ttft&q=", "q", "1 to"),
        ("metric=ttft&window=5x", "window", "5x"),
        ("metric=ttft&window=0s", "window", "0s"),
        ("metric=ttft&window=9999999d", "window", "400d"),
        ("metric=ttft&start=yesterday", "start", "RFC 3339"),
        ("metric=ttft&start=2026-03-01T12:00:00", "start", "offset"),
        ("metric=ttft&end=0001-01-01T00:00:00Z", "end", "within 1970"),
        ("metric=ttft&end=9999-12-31T23:59:59-12:00", "end", "within 1970"),
        ("metric=ttft&start=2026-03-01T12:00:00Z&end=2026-03-01T11:00:00Z", "end", "not before"),
        ("metric=ttft&start=2026-03-01T12:00:00Z&end=2026-03-01T13:00:00Z&window=5m", "window", "at most two"),
        ("metric=ttft&step=7s", "step", "multiple"),
        ("metric=ttft&window=300d&step=5s", "step", "steps"),
    ],
)
def test_bad_queries_name_the_parameter(api: httpx.Client, query: str, field: str, hint: str) -> None:
    response = api.get(f"/api/v1/quantiles?{query}")
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["detail"]["field"] == field
    assert hint in error["message"]


def test_a_histogram_is_no_scalar(api: httpx.Client) -> None:
    response = api.get("/api/v1/scalars", params={"metric": "ttft"})
    assert response.status_code == 400 and "quantiles" in response.json()["error"]["message"]


def test_every_label_is_a_parameter() -> None:
    accepted = [name for name in parameters.label_filters.__annotations__ if name != "return"]
    assert sorted(accepted) == sorted(metrics.LABELS)


def test_workload_and_requests(
    api: httpx.Client, make_spans: Callable[..., Any], start: datetime, node_token: Callable[[str], str]
) -> None:
    def at(seconds: float) -> datetime:
        return start + timedelta(seconds=seconds)

    first = make_spans("a", [
        {"id": "r2", "arrival": at(2), "hashes": [7, -9], "prompt": 32},
        {"id": "r1", "arrival": at(1), "parts": {"e2e": 9.0, "ttft": 1.0, "unaccounted": -0.001}},
        {"id": "bad", "arrival": at(1), "parts": {"e2e": 1.0, "ttft": float("nan")}},
    ])  # fmt: skip
    response = send(api, first, "/v1/traces")
    assert response.status_code == 200 and b"tailwright.part.ttft" in response.content
    send(api, first, "/v1/traces")
    again = make_spans("b", [{"id": "r3", "arrival": at(3)}, {"id": "x", "arrival": at(3), "name": "other"}])
    send(api, again, "/v1/traces")
    span = {"pool": "chat", "start": at(0).isoformat(), "end": at(60).isoformat()}
    workload = api.get("/api/v1/workload", params=span).json()
    assert workload["nodes"] == 2 and workload["block_size"] == 16
    assert [one["timestamp"] for one in workload["requests"]] == [1000, 2000, 3000]
    assert workload["requests"][1]["hash_ids"] == [7, -9] and workload["requests"][1]["input_length"] == 32
    slowest = api.get("/api/v1/requests", params=span | {"order": "slowest", "limit": 1}).json()
    assert slowest["items"][0]["request_id"] == "r1" and slowest["items"][0]["parts"]["ttft"] == 1.0
    assert slowest["items"][0]["revision"] == 3 and slowest["items"][0]["model"] == "tiny"
    rest = api.get("/api/v1/requests", params=span | {"order": "slowest", "cursor": slowest["next"]}).json()
    assert [one["request_id"] for one in rest["items"]] == ["r2", "r3"] and rest["next"] is None
    newest = api.get("/api/v1/requests", params=span | {"node": "a"}).json()["items"]
    assert [one["request_id"] for one in newest] == ["r2", "r1"]
    assert api.get("/api/v1/workload").json()["error"]["detail"]["field"] == "pool"
    assert api.get("/api/v1/requests", params={"nodes": "a"}).json()["error"]["detail"]["field"] == "nodes"
