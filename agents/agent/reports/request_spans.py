"""The finished requests of a sealed tally as OTLP spans for /v1/traces: the workload record.

Guarantee: no text of a prompt or an answer leaves the node, and block hashes only re-keyed with the fleet's own key, so
that prefix sharing shows within the fleet and nothing can be looked up by who lacks the key. A request's trace and span
ids follow from the engine's boot and the event's number: the same request always has the same ids.
"""

import logging
from hashlib import blake2b

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agents.agent.reports.otlp_report import SCOPE, int_attribute, resource, text_attribute
from agents.agent.reports.report import NodeIdentity, resource_attributes
from agents.agent.reports.tally import Tally
from agents.backends.base import Position
from controlplane.contract import metrics
from controlplane.contract.reports.engine_event import FinishedEvent, TracedEvent

log = logging.getLogger(__name__)

_PARTS = tuple(
    metric.short for metric in (metrics.E2E, metrics.TTFT, metrics.TPOT, *metrics.REQUEST_PARTS, metrics.UNACCOUNTED)
)
_POSITIVE_63_BITS = 2**63 - 1


def rekey(block_hash: int, workload_key: bytes) -> int:
    """BLAKE2b (RFC 7693), 8 bytes, keyed with the fleet's workload key; 63 bits of it, as OTLP integers are signed."""
    digest = blake2b((block_hash & (2**64 - 1)).to_bytes(8, "little"), digest_size=8, key=workload_key).digest()
    return int.from_bytes(digest, "little") & _POSITIVE_63_BITS


def encode_spans(tally: Tally, identity: NodeIdentity, workload_key: bytes) -> bytes:
    """The serialized ExportTraceServiceRequest; empty bytes when no request finished."""
    if not tally.finished:
        return b""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add(resource=resource(resource_attributes(identity))).scope_spans.add()
    scope.scope.name = SCOPE
    for position, event in tally.finished:
        try:
            scope.spans.append(_span(position, event, tally.model, identity, workload_key))
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            log.error("event %d gives no span, passed over: %s", position.seq, error)
    return request.SerializeToString()


def _span(
    position: Position, event: FinishedEvent | TracedEvent, model: str, identity: NodeIdentity, workload_key: bytes
) -> Span:
    own_id = blake2b(f"{identity.node}\n{position.boot}\n{position.seq}".encode(), digest_size=24).digest()
    start = int(event["arrival"] * 1e9)
    attributes = [
        text_attribute(metrics.SPAN_REQUEST_ID, event["request_id"]),
        text_attribute(metrics.MODEL.name, model),
        int_attribute(metrics.REVISION.name, event["revision"]),
        int_attribute(metrics.SPAN_INPUT_TOKENS, event["prompt_tokens"]),
        int_attribute(metrics.SPAN_OUTPUT_TOKENS, event["output_tokens"]),
    ]
    if event["kind"] == "finished":  # A trace does not tell these.
        attributes.append(text_attribute(metrics.SPAN_FINISH_REASON, event["finish_reason"]))
        attributes.append(int_attribute(metrics.SPAN_CACHED_TOKENS, event["cached_tokens"]))
        if event["block_size"]:  # 0: the engine does not tell the blocks of its prompts.
            hashes = [AnyValue(int_value=rekey(value, workload_key)) for value in event["block_hashes"]]
            blocks = AnyValue(array_value=ArrayValue(values=hashes))
            attributes.append(int_attribute(metrics.SPAN_BLOCK_SIZE, event["block_size"]))
            attributes.append(KeyValue(key=metrics.SPAN_BLOCK_HASHES, value=blocks))
    for name in _PARTS:
        seconds = event.get(name)
        if isinstance(seconds, float | int):
            attributes.append(KeyValue(key=metrics.SPAN_PART_PREFIX + name, value=AnyValue(double_value=seconds)))
    for name, figure in event.get("batch", {}).items():
        attributes.append(KeyValue(key=metrics.SPAN_BATCH_PREFIX + name, value=AnyValue(double_value=figure)))
    tenant = str(event.get("tenant", ""))
    for name, value in ((metrics.TENANT.name, tenant), (metrics.REGION.name, identity.region)):
        if value:
            attributes.append(text_attribute(name, value))
    return Span(
        trace_id=own_id[:16],
        span_id=own_id[16:],
        name=metrics.SPAN_REQUEST,
        kind=Span.SpanKind.SPAN_KIND_SERVER,
        start_time_unix_nano=start,
        end_time_unix_nano=start + int(max(event["e2e"], 0.0) * 1e9),
        attributes=attributes,
    )
