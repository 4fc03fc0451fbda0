"""The way in over HTTP: who is let in, what is answered, and what a client can do wrong with its connection."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
import zstandard
from fastapi import FastAPI
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from controlplane.auth import store as tokens
from controlplane.contract import metrics
from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import Overloaded, TailwrightError
from controlplane.contract.metrics import MetricKind
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import PackedNumber, PackedReport, Section
from controlplane.db.database import Database
from controlplane.telemetry.http import receiver
from controlplane.telemetry.http.receiver import Application
from controlplane.telemetry.journal import intake, writer
from controlplane.telemetry.otlp import otlp_bodies
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.values.timespan import to_ns
from tests.controlplane.telemetry import packed_reports
from tests.controlplane.telemetry.running_server import running

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
PACKED = {"Content-Type": packed_report.MEDIA_TYPE}
PATHS = ("/v1/metrics", "/v1/traces")
STREAM = bytes(range(16))


def packed(start: datetime, ordinal: int = 1, node: str = "n1") -> bytes:
    """Three values of ttft and a gauge."""
    histogram = packed_reports.histogram([0.1, 0.2, 0.4])
    return packed_report.encode(
        PackedReport(
            STREAM,
            ordinal,
            {metrics.NODE.name: node, metrics.POOL.name: "chat"},
            ((metrics.TTFT.name, MetricKind.HISTOGRAM), (metrics.RUNNING.name, MetricKind.GAUGE)),
            ({metrics.MODEL.name: "m"},),
            (Section(int(start.timestamp()) // 5, (histogram,), (), (PackedNumber(1, 0, 4.0),)),),
        )
    )


def ttft_count(api: httpx.Client) -> int:
    series = api.get("/api/v1/quantiles", params={"metric": "ttft", "window": "15m"}).json()["series"]
    return int(series[0]["count"]) if series else 0


# -- who is let in, and what every answer carries ----------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_the_token_comes_first(api: httpx.Client, path: str) -> None:
    """Nothing else of a request is told to somebody who may not send it."""
    for authorization in ("", "Bearer x", "Basic eDp5"):
        answer = api.post(
            f"{path}?no_such=1", content=b"\xff", headers={"Authorization": authorization, "Content-Type": "text/plain"}
        )
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"]["detail"]["field"] == "Authorization"


def test_a_token_of_another_scope_is_forbidden(api: httpx.Client, database: Database, start: datetime) -> None:
    for scope in (Scope.READ, Scope.OPERATE, Scope.ENROL):
        with database.session() as session:
            _, token = tokens.issue(session, name=scope.value, scope=scope, now=start)
        answer = api.post("/v1/metrics", content=b"", headers=PROTOBUF | {"Authorization": f"Bearer {token}"})
        assert answer.status_code == 403 and answer.json()["error"]["detail"]["needed"] == "agent"


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_says_the_time_and_what_is_taken(api: httpx.Client, clock: Any, path: str) -> None:
    answers = [
        api.post(path, content=b"", headers=PROTOBUF),
        api.post(path, content=b"\xff", headers=PROTOBUF),
        api.post(path, content=b"", headers={"Content-Type": "text/plain"}),
        api.post(path, content=b"", headers={"Authorization": "Bearer x"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 400, 415, 401]
    for answer in answers:
        assert answer.headers[packed_report.ACCEPT_HEADER] == packed_report.ACCEPT_PACKED
        assert int(answer.headers[packed_report.TIME_HEADER]) == to_ns(clock.now)


def test_a_report_is_answered_in_front_of_fastapi(app: FastAPI, agent: dict[str, str], make_report: Any) -> None:
    report = make_report()
    report.histogram([0.1])
    bodies = (report.request.SerializeToString(), b"\xff")
    assert [Connection(app, agent, [{"body": body}]).run().status for body in bodies] == [200, 400]
    assert app.middleware_stack is None, "FastAPI makes its layers for the first request that it sees"


def test_what_nobody_has_foreseen_is_a_500_that_tells_nothing(
    app: FastAPI, agent: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(otlp_bodies, "content_type", broken)
    found = Connection(app, agent, [{"body": b""}]).run()
    assert found.status == 500 and packed_report.ACCEPT_HEADER.lower().encode() in found.headers
    error = json.loads(found.sent[1]["body"])["error"]
    assert error["code"] == TailwrightError.code and "secret" not in error["message"]
    assert "a secret" in caplog.text


def test_other_methods_and_the_documentation_are_the_applications(api: httpx.Client) -> None:
    assert api.get("/v1/metrics").status_code == 405
    paths = api.get("/openapi.json").json()["paths"]
    assert set(paths["/v1/metrics"]["post"]["requestBody"]["content"]) == {*otlp_bodies.KINDS, packed_report.MEDIA_TYPE}
    assert set(paths["/v1/traces"]["post"]["requestBody"]["content"]) == set(otlp_bodies.KINDS)


# -- packed reports ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("encoding", "compress"), [("", bytes), ("zstd", zstandard.compress)])
def test_a_packed_report_is_kept_once(
    api: httpx.Client, start: datetime, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    headers = PACKED | ({"Content-Encoding": encoding} if encoding else {})
    for _ in range(2):
        answer = api.post("/v1/metrics", content=compress(packed(start)), headers=headers)
        assert answer.status_code == 200 and answer.content == b""
        assert answer.headers["content-type"] == "application/x-protobuf"
    assert ttft_count(api) == 3


def test_a_packed_report_of_another_node_is_refused(
    api: httpx.Client, start: datetime, node_token: Callable[[str], str]
) -> None:
    agent = {"Authorization": f"Bearer {node_token('n2')}"}
    answer = api.post("/v1/metrics", content=packed(start), headers=PACKED | agent)
    assert answer.status_code == 403 and answer.json()["error"]["detail"]["field"] == metrics.NODE.name
    assert ttft_count(api) == 0


def test_traces_are_not_packed(api: httpx.Client, start: datetime) -> None:
    assert api.post("/v1/traces", content=packed(start), headers=PACKED).status_code == 415


def test_an_otlp_report_with_an_identity_is_the_packed_ones_repeat(
    api: httpx.Client, make_report: Any, start: datetime
) -> None:
    assert api.post("/v1/metrics", content=packed(start, 7), headers=PACKED).status_code == 200
    report = make_report()
    report.histogram([0.1, 0.2])
    digest = packed_report.digest_of(packed(start, 7))
    identified = PROTOBUF | {packed_report.REPORT_HEADER: packed_report.report_header(STREAM, 7, digest)}
    assert api.post("/v1/metrics", content=report.request.SerializeToString(), headers=identified).status_code == 200
    assert ttft_count(api) == 3
    identified = PROTOBUF | {packed_report.REPORT_HEADER: packed_report.report_header(STREAM, 8)}
    assert api.post("/v1/metrics", content=report.request.SerializeToString(), headers=identified).status_code == 200
    assert ttft_count(api) == 5


def test_an_otlp_report_with_an_identity_and_other_content_is_told_so(
    api: httpx.Client, make_report: Any, start: datetime
) -> None:
    assert api.post("/v1/metrics", content=packed(start, 7), headers=PACKED).status_code == 200
    report = make_report()
    report.histogram([0.1, 0.2])
    identified = PROTOBUF | {packed_report.REPORT_HEADER: packed_report.report_header(STREAM, 7)}
    answer = api.post("/v1/metrics", content=report.request.SerializeToString(), headers=identified)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "other_content")
    assert ttft_count(api) == 3
    assert 'tailwright_ingest_reports_conflicting_total{reason="other"} 1.0' in api.get("/metrics").text


@pytest.mark.parametrize(
    "identity",
    ["", "xyz/1", f"{STREAM.hex()}/0", f"{STREAM.hex()}/-1", "00/1", "é", f"{STREAM.hex()}/1/", f"{STREAM.hex()}/1/00"],
)
def test_an_identity_that_is_none_is_an_error(api: httpx.Client, make_report: Any, identity: str) -> None:
    report = make_report()
    report.histogram([0.1])
    headers = PROTOBUF | {packed_report.REPORT_HEADER: identity.encode()}
    answer = api.post("/v1/metrics", content=report.request.SerializeToString(), headers=headers)
    assert answer.status_code == 400 and answer.json()["error"]["detail"]["field"] == packed_report.REPORT_HEADER
    assert ttft_count(api) == 0


# -- one bad value leaves the others -----------------------------------------------------------------------------


def test_half_a_surrogate_pair_spoils_its_point_only(api: httpx.Client, make_report: Any) -> None:
    report = make_report()
    report.histogram([0.1, 0.2], model="good")
    report.histogram([0.3], model="BAD")
    body = json.dumps(json_format.MessageToDict(report.request)).replace("BAD", "\\ud83d")
    answer = api.post("/v1/metrics", content=body, headers=JSON)
    assert answer.status_code == 200 and answer.json()["partialSuccess"]["rejectedDataPoints"] == "1"
    assert ttft_count(api) == 2


@pytest.mark.parametrize("place", ["name", "resource", "scope"])
def test_half_a_surrogate_pair_above_the_points(api: httpx.Client, make_report: Any, place: str) -> None:
    good, bad = make_report(node="good"), make_report(node="BAD" if place == "resource" else "other")
    good.histogram([0.1, 0.2])
    bad.histogram([0.3])
    bad.histogram([0.4], name="tailwright.BAD" if place == "name" else metrics.ITL.name)
    if place == "scope":
        bad.request.resource_metrics[0].scope_metrics[0].scope.name = "BAD"
    good.request.MergeFrom(bad.request)
    body = json.dumps(json_format.MessageToDict(good.request)).replace("BAD", "\\udc00")
    answer = api.post("/v1/metrics", content=body, headers=JSON)
    lost = 1 if place == "name" else 2
    assert answer.status_code == 200 and answer.json()["partialSuccess"]["rejectedDataPoints"] == str(lost)
    assert ttft_count(api) == (3 if place == "name" else 2)


@pytest.mark.parametrize("parts", [{"e2e": 1.0, "queue": -0.5}, {"e2e": float("nan")}])
@pytest.mark.parametrize("alone", [True, False])
def test_a_bad_span_value_refuses_its_span_only(
    api: httpx.Client, make_spans: Callable[..., Any], start: datetime, parts: dict[str, float], alone: bool
) -> None:
    spans = [{"id": "bad", "arrival": start, "parts": parts}] + ([] if alone else [{"id": "good", "arrival": start}])
    request = make_spans("a", [dict(one, parts={"e2e": 1.0}) for one in spans])
    for span in request.resource_spans[0].scope_spans[0].spans[:1]:
        del span.attributes[-1]
        for name, value in parts.items():
            span.attributes.add(key=metrics.SPAN_PART_PREFIX + name).value.double_value = value
    answer = api.post("/v1/traces", content=request.SerializeToString(), headers=PROTOBUF)
    assert answer.status_code == 200
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_spans == 1 and metrics.SPAN_PART_PREFIX in partial.error_message
    span_of_time = {"start": start.isoformat(), "window": "60s"}
    kept = api.get("/api/v1/requests", params=span_of_time).json()["items"]
    assert [one["request_id"] for one in kept] == ([] if alone else ["good"])


def test_a_damaged_span_leaves_the_others(api: httpx.Client, make_spans: Callable[..., Any], start: datetime) -> None:
    request = make_spans("a", [{"id": "good", "arrival": start}, {"id": "badtext", "arrival": start}])
    other = make_spans("badnode", [{"id": "lost", "arrival": start}])
    body = (request.SerializeToString() + other.SerializeToString()).replace(b"badtext", b"bad\xfftxt")
    answer = api.post("/v1/traces", content=body.replace(b"badnode", b"\xffadnode"), headers=PROTOBUF)
    assert answer.status_code == 200
    assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 2
    kept = api.get("/api/v1/requests", params={"start": start.isoformat(), "window": "60s"}).json()["items"]
    assert [one["request_id"] for one in kept] == ["good"]


@pytest.mark.parametrize("headers", [PROTOBUF, JSON])
def test_foreign_spans_are_no_error(
    api: httpx.Client, make_spans: Callable[..., Any], start: datetime, headers: dict[str, str]
) -> None:
    request = make_spans("a", [{"id": str(i), "arrival": start, "name": "GET /"} for i in range(3)])
    body = request.SerializeToString() if headers is PROTOBUF else json_format.MessageToJson(request).encode()
    answer = api.post("/v1/traces", content=body, headers=headers)
    assert answer.status_code == 200 and answer.headers["content-type"] == headers["Content-Type"]
    if headers is PROTOBUF:
        rejected = ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans
    else:
        rejected = int(answer.json()["partialSuccess"]["rejectedSpans"])
    assert rejected == 3
    assert 'tailwright_ingest_points_refused_total{reason="span",signal="traces"} 3.0' in api.get("/metrics").text


def test_spans_of_another_node_are_forbidden(
    api: httpx.Client, make_spans: Callable[..., Any], start: datetime, node_token: Callable[[str], str]
) -> None:
    agent = {"Authorization": f"Bearer {node_token('b')}"}
    body = make_spans("a", [{"id": "r", "arrival": start}]).SerializeToString()
    assert api.post("/v1/traces", content=body, headers=PROTOBUF | agent).status_code == 403


def test_a_warning_is_told_beside_no_refusal(api: httpx.Client, make_report: Any) -> None:
    report = make_report()
    report.histogram([0.1, 0.9], scale=2)
    answer = api.post("/v1/metrics", content=report.request.SerializeToString(), headers=PROTOBUF)
    partial = ExportMetricsServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_data_points == 0 and "scale 2 is coarser" in partial.error_message


def test_too_many_label_sets_of_a_tenant(api: httpx.Client, store: TelemetryStore, make_report: Any) -> None:
    store.names.max_per_tenant = 2
    report = make_report()
    for model in range(4):
        report.histogram([0.1], model=str(model), tenant="loud")
    report.histogram([0.1], model="m", tenant="quiet")
    answer = api.post("/v1/metrics", content=report.request.SerializeToString(), headers=PROTOBUF)
    partial = ExportMetricsServiceResponse.FromString(answer.content).partial_success
    assert answer.status_code == 200 and partial.rejected_data_points == 2 and "'loud'" in partial.error_message
    assert ttft_count(api) == 3


# -- cumulative points -------------------------------------------------------------------------------------------


def running_total(make_report: Any, start: datetime, seconds: float, total: int, began: float = 0.0) -> bytes:
    """A report of a process that began at `start` + `began` and has counted `total` requests of 0.1 s and tokens."""
    report = make_report(start=start + timedelta(seconds=began), seconds=seconds - began)
    report.histogram([0.1] * total)
    report.number(metrics.OUTPUT_TOKENS.name, total)
    report.metrics[0].exponential_histogram.aggregation_temporality = 2
    report.metrics[1].sum.aggregation_temporality = 2
    body: bytes = report.request.SerializeToString()
    return body


def test_cumulative_points_are_counted_by_their_growth(api: httpx.Client, make_report: Any, start: datetime) -> None:
    for seconds, total in ((10, 3), (20, 5), (20, 5), (30, 5), (40, 9)):
        body = running_total(make_report, start, seconds, total)
        answer = api.post("/v1/metrics", content=body, headers=PROTOBUF)
        assert answer.status_code == 200 and answer.content == b""
        assert ttft_count(api) == total
    restarted = running_total(make_report, start, 60, 4, began=50)
    assert api.post("/v1/metrics", content=restarted, headers=PROTOBUF).status_code == 200
    assert ttft_count(api) == 13
    late = api.post("/v1/metrics", content=running_total(make_report, start, 35, 7), headers=PROTOBUF)
    assert late.status_code == 400 and "send in order" in late.json()["error"]["message"]
    asked = {"metric": "ttft", "start": start.isoformat(), "window": "60s", "step": "10s"}
    (series,) = api.get("/api/v1/quantiles", params=asked).json()["series"]
    assert [point["count"] for point in series["points"]] == [3, 2, 4, 4]
    tokens = api.get("/api/v1/scalars", params={"metric": "output_tokens", "window": "15m"}).json()["series"]
    assert tokens[0]["value"] == 13


def test_a_process_that_began_before_what_is_kept_is_counted_from_now_on(
    api: httpx.Client, make_report: Any, start: datetime
) -> None:
    for seconds, total in ((10, 1000), (20, 1004)):
        body = running_total(make_report, start, seconds, total, began=-50 * 3600)
        assert api.post("/v1/metrics", content=body, headers=PROTOBUF).status_code == 200
    assert ttft_count(api) == 4


# -- overload and failure ----------------------------------------------------------------------------------------


def test_a_full_queue_is_429_with_a_time_to_come_back(
    api: httpx.Client, store: TelemetryStore, start: datetime, make_report: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise Overloaded("too many reports wait", retry_after_s=7.2)

    monkeypatch.setattr(store.writer, "submit", full)
    report = make_report()
    report.histogram([0.1])
    for content, headers in ((packed(start), PACKED), (report.request.SerializeToString(), PROTOBUF)):
        answer = api.post("/v1/metrics", content=content, headers=headers)
        assert answer.status_code == 429 and answer.headers["retry-after"] == "8"
        assert answer.json()["error"]["code"] == "overloaded"


@pytest.mark.parametrize(("module", "limit"), [(intake, "EXTRACTION_LIMIT_BYTES"), (receiver, "LIMIT_HELD")])
def test_too_much_at_once_is_429(
    api: httpx.Client, make_report: Any, monkeypatch: pytest.MonkeyPatch, module: Any, limit: str
) -> None:
    monkeypatch.setattr(module, limit, -1)
    report = make_report()
    report.histogram([0.1])
    answer = api.post("/v1/metrics", content=report.request.SerializeToString(), headers=PROTOBUF)
    assert answer.status_code == 429 and answer.headers["retry-after"] == "1"


def test_a_store_that_is_not_running_is_503(
    api: httpx.Client, store: TelemetryStore, start: datetime, make_report: Any
) -> None:
    store.close()
    answer = api.post("/v1/metrics", content=packed(start), headers=PACKED)
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
    report = make_report()
    report.histogram([0.1])
    answer = api.post("/v1/metrics", content=report.request.SerializeToString(), headers=PROTOBUF)
    assert answer.status_code == 503


def test_a_commit_that_takes_too_long_is_503(
    api: httpx.Client, store: TelemetryStore, start: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "COMMIT_TIMEOUT_S", 0.01)
    monkeypatch.setattr(store.writer, "submit", lambda *_: asyncio.get_running_loop().create_future())
    answer = api.post("/v1/metrics", content=packed(start), headers=PACKED)
    assert answer.status_code == 503 and "it will be recognised" in answer.json()["error"]["message"]


# -- what a client does with its connection ----------------------------------------------------------------------


class Connection:
    """One request as a server hands it to the application."""

    def __init__(self, app: FastAPI, headers: dict[str, str], messages: Iterable[dict[str, Any]]) -> None:
        self.app = app
        self.scope = {
            "type": "http", "method": "POST", "path": "/v1/metrics", "raw_path": b"/v1/metrics", "root_path": "",
            "query_string": b"", "scheme": "http", "http_version": "1.1", "client": None, "server": None,
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        self.messages = self._given(messages)
        self.sent: list[Any] = []

    async def _given(self, messages: Iterable[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        for message in messages:
            yield {"type": "http.request"} | message
        await asyncio.get_running_loop().create_future()  # Nothing more comes.

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    def run(self) -> "Connection":
        asyncio.run(asyncio.wait_for(self.app(self.scope, self.messages.__anext__, self._send), 30))
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])


@pytest.fixture
def agent(node_token: Callable[[str], str]) -> dict[str, str]:
    return PROTOBUF | {"Authorization": f"Bearer {node_token('n1')}"}


def test_a_client_that_is_gone_is_not_answered(app: FastAPI, agent: dict[str, str]) -> None:
    for messages in (
        [{"type": "http.disconnect"}],
        [{"body": b"\x0a", "more_body": True}, {"type": "http.disconnect"}],
    ):
        assert Connection(app, agent, messages).run().sent == []


def test_a_body_in_parts_is_one_body(app: FastAPI, agent: dict[str, str], make_report: Any, api: httpx.Client) -> None:
    report = make_report()
    report.histogram([0.1, 0.2])
    body = report.request.SerializeToString()
    parts = [{"body": body[i : i + 7], "more_body": True} for i in range(0, len(body), 7)]
    assert Connection(app, agent, [*parts, {"body": b""}]).run().status == 200
    assert ttft_count(api) == 2


def test_a_stated_length_over_the_limit_is_refused_unread(app: FastAPI, agent: dict[str, str]) -> None:
    found = Connection(app, agent | {"Content-Length": str(otlp_bodies.LIMIT_BODY + 1)}, []).run()
    assert found.status == 413 and found.headers[b"connection"] == b"close"


def test_a_body_over_the_limit_is_not_read_to_its_end(app: FastAPI, agent: dict[str, str]) -> None:
    part = bytes(1 << 20)
    parts = [{"body": part, "more_body": True}] * (otlp_bodies.LIMIT_BODY // len(part) + 1)
    for headers in (agent, agent | {"Content-Length": "17"}):  # The length is a lie.
        found = Connection(app, headers, parts).run()
        assert found.status == 413


def test_a_body_that_never_ends_is_given_up(
    app: FastAPI, agent: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "BODY_TIMEOUT_S", 0.01)
    found = Connection(app, agent, [{"body": b"\x0a", "more_body": True}]).run()
    assert found.status == 503 and found.headers[b"connection"] == b"close"


def test_lengths_that_lie_on_a_real_connection(
    app: FastAPI, agent: dict[str, str], make_report: Any, api: httpx.Client
) -> None:
    """Whatever one connection does, the next one is served."""
    report = make_report()
    report.histogram([0.1])
    body = report.request.SerializeToString()
    head = "POST /v1/metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in agent.items()
    )

    def send(address: tuple[str, int], *lines: str, content: bytes = body, gone: bool = False) -> bytes:
        with socket.create_connection(address, timeout=30) as connection:
            connection.sendall((head + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode() + content)
            if gone:
                connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    with running(app) as url:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        assert send(address, f"Content-Length: {len(body) + 100}", gone=True) == b""  # There is nobody to answer.
        assert send(address, f"Content-Length: {len(body) - 5}").startswith(b"HTTP/1.1 400")
        for wrong in ("-1", "1e3", "99999999999999999999999999", "1\r\nContent-Length: 2"):
            assert send(address, f"Content-Length: {wrong}").startswith(b"HTTP/1.1 4")
        huge = send(address, f"Content-Length: {otlp_bodies.LIMIT_BODY + 1}")
        assert huge.startswith(b"HTTP/1.1 413") and b"connection: close" in huge.lower()
        chunked = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
        assert send(address, "Transfer-Encoding: chunked", content=chunked).startswith(b"HTTP/1.1 200")
        assert send(address, "Transfer-Encoding: chunked", content=b"zz\r\n").startswith(b"HTTP/1.1 400")
        assert send(address, f"Content-Length: {len(body)}").startswith(b"HTTP/1.1 200")
    assert ttft_count(api) == 1


def test_what_is_held_is_let_go(app: Application, agent: dict[str, str], make_report: Any) -> None:
    report = make_report()
    report.histogram([0.1])
    body = report.request.SerializeToString()
    half = {"body": body[:9], "more_body": True}
    Connection(app, agent, [half, {"type": "http.disconnect"}]).run()
    Connection(app, agent, [half, {"body": body[9:]}]).run()
    Connection(app, agent, [{"body": b"\xff"}]).run()
    assert app.receiver._held == 0
