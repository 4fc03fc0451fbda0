"""Spans as vLLM 0.32 sends them, for tests."""

from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

ATTRIBUTES: dict[str, Any] = {
    "gen_ai.latency.time_to_first_token": 0.25,
    "gen_ai.latency.e2e": 1.0,
    "gen_ai.latency.time_in_queue": 0.05,
    "gen_ai.usage.prompt_tokens": 100,
    "gen_ai.usage.completion_tokens": 16,
    "gen_ai.latency.time_in_model_prefill": 0.15,
    "gen_ai.latency.time_in_model_decode": 0.75,
    "gen_ai.latency.time_in_model_inference": 0.9,
    "gen_ai.request.id": "cmpl-1",
    "gen_ai.request.max_tokens": 16,
    "gen_ai.request.temperature": 0.5,
    "gen_ai.request.n": 1,
}


def value_of(value: Any) -> AnyValue:
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)


def span(end: float = 1000.0, name: str = "llm_request", **changed: Any) -> Span:
    """`changed`: attributes by their last part; None leaves one out."""
    given = dict(ATTRIBUTES)
    for short, value in changed.items():
        (full,) = [one for one in given if one.rpartition(".")[2] == short]
        given[full] = value
    return Span(
        name=name,
        span_id=b"12345678",
        start_time_unix_nano=int((end - 1.0) * 1e9),
        end_time_unix_nano=int(end * 1e9),
        attributes=[KeyValue(key=key, value=value_of(value)) for key, value in given.items() if value is not None],
    )


def export(*spans: Span) -> ExportTraceServiceRequest:
    made = ExportTraceServiceRequest()
    made.resource_spans.add().scope_spans.add().spans.extend(spans)
    return made
