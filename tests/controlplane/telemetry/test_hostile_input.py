"""Whatever is sent, the answer is an outcome or a named 4xx, and the store goes on."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.contract import metrics
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.telemetry.otlp import otlp_bodies
from controlplane.telemetry.otlp.bounds import ANYONE
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.values.refusal import Refusals
from tests.controlplane.telemetry.ingesting import started

LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=5)
    | st.sampled_from(["NaN", "Infinity", "9" * 400, "\0", "x" * 300, -1, 2**64 - 1, "1e999", "dataPoints"])
)  # fmt: skip
JSON_VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)
)
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def paths(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(inner for key, value in items for inner in paths(value, (*path, key)))]


def replaced(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copy


@pytest.fixture
def full_report(make_report: Any) -> ExportMetricsServiceRequest:
    report = make_report()
    report.histogram([0.1, 0.2, 3.0], model="m")
    report.number(metrics.REQUESTS.name, 5)
    report.number(metrics.RUNNING.name, 5, kind="gauge")
    explicit = report.metrics.add(name=metrics.E2E.name, unit="s").histogram
    explicit.aggregation_temporality = 1
    explicit.data_points.add(
        start_time_unix_nano=report.start_ns, time_unix_nano=report.end_ns, count=2, sum=1.0,
        explicit_bounds=[0.1, 1.0], bucket_counts=[0, 2, 0], min=0.2, max=0.8,
    )  # fmt: skip
    request: ExportMetricsServiceRequest = report.request
    return request


@pytest.mark.slow
@FUZZ
@given(data=st.data())
def test_spoilt_json(store: TelemetryStore, full_report: ExportMetricsServiceRequest, data: st.DataObject) -> None:
    tree = json_format.MessageToDict(full_report)
    path = data.draw(st.sampled_from(paths(tree)))
    spoilt = replaced(tree, path, data.draw(JSON_VALUES))
    try:
        body = json.dumps(spoilt, allow_nan=False).encode()
    except (ValueError, UnicodeError):
        return
    try:
        outcome = started(store.intake.metrics(body, "", otlp_bodies.JSON, ANYONE, None)).result(30)
    except BadRequest as error:
        assert error.detail["field"] == "body"
        return
    assert outcome.accepted + outcome.repeated <= 4


@FUZZ
@given(data=st.data())
def test_spoilt_protobuf(store: TelemetryStore, full_report: ExportMetricsServiceRequest, data: st.DataObject) -> None:
    body = bytearray(full_report.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BadRequest):
        started(store.intake.metrics(bytes(body), "", PROTOBUF, ANYONE, None)).result(30)


@FUZZ
@given(data=st.data())
def test_spoilt_spans(store: TelemetryStore, make_spans: Callable[..., Any], start: Any, data: st.DataObject) -> None:
    tree = json_format.MessageToDict(make_spans("a", [{"id": "r", "arrival": start}]))
    tree["resourceSpans"][0]["scopeSpans"][0]["spans"][0] |= {"traceId": "5b8efff798038103d269b633813fc60c"}
    spoilt = replaced(tree, data.draw(st.sampled_from(paths(tree))), data.draw(JSON_VALUES))
    try:
        body = json.dumps(spoilt, allow_nan=False).encode()
    except (ValueError, UnicodeError):
        return
    with suppress(BadRequest):
        started(store.intake.traces(body, "", otlp_bodies.JSON, ANYONE)).result(30)


def test_a_span_id_that_is_not_hexadecimal_spoils_only_its_span(
    store: TelemetryStore, make_spans: Any, start: Any
) -> None:
    tree = json_format.MessageToDict(make_spans("a", [{"id": "r1", "arrival": start}, {"id": "r2", "arrival": start}]))
    spans = tree["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[0]["spanId"], spans[1]["spanId"] = "not hexadecimal", "eee19b7ec3c1b174"
    refusals = Refusals()
    body = json.dumps(tree).encode()
    message = otlp_bodies.read(body, otlp_bodies.JSON, ExportTraceServiceRequest(), refusals)
    assert message.resource_spans[0].scope_spans[0].spans[0].span_id.hex() == "eee19b7ec3c1b174"
    assert refusals.count == 1 and "spanId" in refusals.text()
