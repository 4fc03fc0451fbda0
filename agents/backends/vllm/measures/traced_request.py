"""vLLM's span of one request, read. Pure.

vLLM emits one span named llm_request when a request ends: it starts at the request's arrival in the server and ends
when its last output was taken up; the attributes carry the very values that vLLM's own histograms observe (vLLM 0.32,
vllm/v1/engine/output_processor.py, do_tracing, and vllm/tracing/utils.py). It tells no finish reason, no cached tokens
and no gaps between tokens. A request that its client gave up gets no span.
"""

import math
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from controlplane.contract import metrics

_LATENCY = "gen_ai.latency."
E2E = _LATENCY + "e2e"
TTFT = _LATENCY + "time_to_first_token"
QUEUE = _LATENCY + "time_in_queue"
PREFILL = _LATENCY + "time_in_model_prefill"
DECODE = _LATENCY + "time_in_model_decode"
PROMPT_TOKENS = "gen_ai.usage.prompt_tokens"
OUTPUT_TOKENS = "gen_ai.usage.completion_tokens"
REQUEST_ID = "gen_ai.request.id"


@dataclass(frozen=True)
class TracedRequest:
    """Seconds; `arrival` and `end` are Unix seconds. What the span does not tell is None."""

    request_id: str
    arrival: float
    end: float
    e2e: float
    ttft: float | None
    queue: float | None
    prefill: float | None
    decode: float | None
    prompt_tokens: int
    output_tokens: int

    @property
    def first_token(self) -> float:
        """When the first token was there, Unix seconds."""
        return self.end if self.ttft is None else self.arrival + self.ttft

    @property
    def tpot(self) -> float | None:
        """The contract's: (e2e - ttft) / (output tokens - 1)."""
        if self.ttft is None or self.output_tokens < 2:
            return None
        return (self.e2e - self.ttft) / (self.output_tokens - 1)

    def observed(self) -> dict[str, float]:
        """What vLLM's histograms observed of it at its end, by the contract's short names."""
        per_token = None if self.decode is None or self.output_tokens < 2 else self.decode / (self.output_tokens - 1)
        found = {
            metrics.E2E.short: self.e2e,
            metrics.QUEUE.short: self.queue,
            metrics.PREFILL.short: self.prefill,
            metrics.DECODE.short: self.decode,
            metrics.TPOT.short: per_token,
        }
        return {short: value for short, value in found.items() if value is not None}


def requests_of(export: ExportTraceServiceRequest) -> tuple[list[TracedRequest], list[str]]:
    """The requests among the spans, and what was wrong with those that cannot be read. Other spans are passed over."""
    found: list[TracedRequest] = []
    wrong: list[str] = []
    for group in export.resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                if span.name == metrics.SPAN_REQUEST:
                    try:
                        found.append(_read(span))
                    except ValueError as error:
                        wrong.append(str(error))
    return found, wrong


def _read(span: Span) -> TracedRequest:
    given = {
        item.key: getattr(item.value, item.value.WhichOneof("value") or "string_value") for item in span.attributes
    }
    e2e = _seconds(given.get(E2E))
    if e2e is None:
        raise ValueError(f"{metrics.SPAN_REQUEST}: attribute {E2E}: wants seconds, got {given.get(E2E)!r}")
    if not 0 < span.start_time_unix_nano <= span.end_time_unix_nano:
        raise ValueError(f"{metrics.SPAN_REQUEST}: wants a start before its end")
    return TracedRequest(
        request_id=str(given.get(REQUEST_ID, ""))[:256] or span.span_id.hex(),
        arrival=span.start_time_unix_nano / 1e9,
        end=span.end_time_unix_nano / 1e9,
        e2e=e2e,
        ttft=_seconds(given.get(TTFT)),
        queue=_seconds(given.get(QUEUE)),
        prefill=_seconds(given.get(PREFILL)),
        decode=_seconds(given.get(DECODE)),
        prompt_tokens=_tokens(PROMPT_TOKENS, given),
        output_tokens=_tokens(OUTPUT_TOKENS, given),
    )


def _seconds(value: Any) -> float | None:
    """A duration. Of a request that never was scheduled vLLM sends differences with a clock mark of 0: no durations."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) and value >= 0 else None


def _tokens(name: str, given: dict[str, Any]) -> int:
    value = given.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{metrics.SPAN_REQUEST}: attribute {name}: wants a whole number, got {value!r}")
    return value
