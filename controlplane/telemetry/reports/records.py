"""OTLP spans named `llm_request` to request records: the workload, and each request's waterfall.

Guarantee: a span that is no complete request is refused by itself, with a message that names the attribute.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from controlplane.contract import metrics
from controlplane.telemetry.otlp.bounds import Bounds, check_origin, check_times
from controlplane.telemetry.otlp.labels import MAX_LABEL, Origin, origin_of
from controlplane.telemetry.values.magnitude import LARGEST, fits
from controlplane.telemetry.values.refusal import Reason, Refusals, Refused

MAX_TOKENS = 1 << 31
MAX_BLOCKS = 1 << 20
NAME = metrics.SPAN_REQUEST
PARTS = (metrics.E2E, metrics.TTFT, metrics.TPOT, *metrics.REQUEST_PARTS, metrics.UNACCOUNTED)
PART_OF = {metrics.SPAN_PART_PREFIX + metric.short: metric.short for metric in PARTS}
FIGURES = (*metrics.BATCH_FIGURES, *(metrics.BATCH_PEAK + name for name in metrics.BATCH_FIGURES))
FIGURE_OF = {metrics.SPAN_BATCH_PREFIX + name: name for name in FIGURES}
TRACE_ID_BYTES = 16


class Record(NamedTuple):
    """The columns of a request row."""

    node: str
    pool: str
    model: str
    revision: int
    request_id: str
    arrival_ns: int
    e2e_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    finish_reason: str
    block_size: int
    parts: bytes
    hashes: bytes
    trace_id: str = ""
    batch: bytes = b"{}"
    tenant: str = ""
    region: str = ""
    ttft_s: float | None = None


def read_records(request: ExportTraceServiceRequest, bounds: Bounds, refusals: Refusals) -> list[Record]:
    """All requests that can be kept."""
    records = []
    for resource_spans in request.resource_spans:
        spans = [span for scope in resource_spans.scope_spans for span in scope.spans]
        try:
            origin = origin_of(resource_spans.resource.attributes)
            check_origin(origin.labels, bounds)
            if not origin.labels.get(metrics.NODE.label):
                raise Refused(Reason.SPAN, f"{NAME}: resource attribute {metrics.NODE.name} is missing")
        except Refused as refused:
            refusals.add(refused.reason, refused.message, len(spans))
            continue
        for span in spans:
            try:
                records.append(_record(span, origin, bounds))
            except Refused as refused:
                refusals.add(refused.reason, refused.message)
    return records


def pack_hashes(hashes: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(hashes)}q", *hashes)


def unpack_hashes(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 8}q", data))


def _record(span: Span, origin: Origin, bounds: Bounds) -> Record:
    if span.name != NAME:
        raise Refused(Reason.SPAN, f"span {span.name[:MAX_LABEL]!r} is not kept: only spans named {NAME} are")
    check_times(NAME, span.start_time_unix_nano, span.end_time_unix_nano, bounds)
    if span.start_time_unix_nano < bounds.oldest_ns:
        raise Refused(Reason.TIMESTAMP, f"{NAME}: start_time_unix_nano is older than what is kept")
    given = {item.key: item.value for item in span.attributes}
    parts = {PART_OF[name]: _seconds(name, value) for name, value in given.items() if name in PART_OF}
    e2e = parts.setdefault("e2e", (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9)
    batch = {FIGURE_OF[name]: _figure(name, value) for name, value in given.items() if name in FIGURE_OF}
    hashes = _hashes(given.get(metrics.SPAN_BLOCK_HASHES))
    if len(span.trace_id) not in (0, TRACE_ID_BYTES):
        raise Refused(Reason.SPAN, f"{NAME}: trace_id has {len(span.trace_id)} bytes, wants {TRACE_ID_BYTES}")
    return Record(
        node=origin.labels[metrics.NODE.label],
        pool=origin.labels.get(metrics.POOL.label, ""),
        model=_text(given, metrics.MODEL.name) or origin.labels.get(metrics.MODEL.label, ""),
        revision=_whole(given, metrics.REVISION.name, origin.labels.get(metrics.REVISION.label, "0")),
        request_id=_text(given, metrics.SPAN_REQUEST_ID, needed=True),
        arrival_ns=span.start_time_unix_nano,
        e2e_s=e2e,
        prompt_tokens=_whole(given, metrics.SPAN_INPUT_TOKENS, None, least=1),
        cached_tokens=_whole(given, metrics.SPAN_CACHED_TOKENS, "0"),
        output_tokens=_whole(given, metrics.SPAN_OUTPUT_TOKENS, None),
        finish_reason=_text(given, metrics.SPAN_FINISH_REASON),
        block_size=_whole(given, metrics.SPAN_BLOCK_SIZE, "16", least=1),
        parts=orjson.dumps(parts),
        hashes=pack_hashes(hashes),
        trace_id=span.trace_id.hex(),
        batch=orjson.dumps(batch),
        tenant=_text(given, metrics.TENANT.name) or origin.labels.get(metrics.TENANT.label, ""),
        ttft_s=parts.get(metrics.TTFT.short),
        region=_text(given, metrics.REGION.name) or origin.labels.get(metrics.REGION.label, ""),
    )


def _text(given: dict[str, AnyValue], name: str, *, needed: bool = False) -> str:
    value = given.get(name)
    text = "" if value is None else value.string_value or (str(value.int_value) if value.HasField("int_value") else "")
    if needed and not text:
        raise Refused(Reason.SPAN, f"{NAME}: attribute {name} is missing")
    if len(text) > MAX_LABEL or "\0" in text:
        raise Refused(Reason.LABEL, f"{NAME}: attribute {name}: at most {MAX_LABEL} characters, no zero byte")
    return text


def _whole(given: dict[str, AnyValue], name: str, default: str | None, least: int = 0) -> int:
    value = given.get(name)
    try:
        if value is None:
            if default is None:
                raise Refused(Reason.SPAN, f"{NAME}: attribute {name} is missing")
            number = int(default)
        elif value.HasField("string_value"):
            number = int(value.string_value)
        elif value.HasField("int_value"):
            number = value.int_value
        else:
            raise ValueError
    except ValueError:
        raise Refused(Reason.SPAN, f"{NAME}: attribute {name}: must be a whole number") from None
    if not least <= number <= MAX_TOKENS - 1:
        raise Refused(Reason.SPAN, f"{NAME}: attribute {name} is {number}, must be within {least} and {MAX_TOKENS - 1}")
    return number


def _seconds(name: str, value: AnyValue) -> float:
    number = value.double_value if value.HasField("double_value") else float(value.int_value)
    if value.WhichOneof("value") not in ("double_value", "int_value") or not fits(number):
        raise Refused(Reason.VALUE, f"{NAME}: attribute {name}: must be seconds, finite and at most {LARGEST:g}")
    if number < 0 and PART_OF[name] != metrics.UNACCOUNTED.short:
        raise Refused(Reason.VALUE, f"{NAME}: attribute {name} is {number}, a duration cannot be negative")
    return number


def _figure(name: str, value: AnyValue) -> float:
    number = value.double_value if value.HasField("double_value") else float(value.int_value)
    if value.WhichOneof("value") not in ("double_value", "int_value") or not fits(number) or number < 0:
        wanted = f"must be a finite number, not below zero and at most {LARGEST:g}"
        raise Refused(Reason.VALUE, f"{NAME}: attribute {name}: {wanted}")
    return number


def _hashes(value: AnyValue | None) -> list[int]:
    if value is None:
        return []
    items = value.array_value.values
    if not value.HasField("array_value") or any(not item.HasField("int_value") for item in items):
        raise Refused(Reason.SPAN, f"{NAME}: attribute {metrics.SPAN_BLOCK_HASHES}: must be an array of integers")
    if len(items) > MAX_BLOCKS:
        raise Refused(Reason.SPAN, f"{NAME}: attribute {metrics.SPAN_BLOCK_HASHES}: at most {MAX_BLOCKS} blocks")
    return [item.int_value for item in items]
