"""OTLP's JSON encoding (OTLP 1.x, "JSON Protobuf Encoding"): the protobuf mapping, but trace and span ids are hex.

Guarantee: one data point or span that does not fit the schema is refused by itself, the others are kept; a body that
is no JSON, or wrong above that level, raises `BadRequest`. Unknown fields are ignored, as OTLP asks.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any, TypeVar

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from controlplane.contract.errors import BadRequest
from controlplane.telemetry.refusal import Reason, Refusals

M = TypeVar("M", bound=Message)

_POINTS: dict[str, type[Message]] = {
    "gauge": metrics_pb2.NumberDataPoint,
    "sum": metrics_pb2.NumberDataPoint,
    "histogram": metrics_pb2.HistogramDataPoint,
    "exponentialHistogram": metrics_pb2.ExponentialHistogramDataPoint,
    "exponential_histogram": metrics_pb2.ExponentialHistogramDataPoint,
    "summary": metrics_pb2.SummaryDataPoint,
}
_HEX_FIELDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
_MISFITS = (json_format.ParseError, TypeError, ValueError, AttributeError, KeyError, OverflowError, RecursionError)


def parse(body: bytes, message: M, refusals: Refusals) -> M:
    """Fill `message` (an export request) from JSON bytes."""
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"body: not JSON: {error}", field="body") from error
    if not isinstance(tree, dict):
        raise BadRequest("body: must be a JSON object", field="body")
    for items, _, _ in _leaves(tree):
        for item in items:
            _hex_to_base64(item)
    try:
        return _fill(tree, message)
    except _MISFITS:
        message.Clear()
    for items, kind, name in _leaves(tree):
        items[:] = [item for item in items if _fits(item, kind, name, refusals)]
    try:
        return _fill(tree, message)
    except _MISFITS as error:
        raise BadRequest(f"body: not a {message.DESCRIPTOR.name}: {_short(error)}", field="body") from error


def _fill(tree: Any, message: M) -> M:
    json_format.ParseDict(tree, message, ignore_unknown_fields=True)
    return message


def _fits(item: Any, kind: type[Message], name: str, refusals: Refusals) -> bool:
    try:
        _fill(item, kind())
    except _MISFITS as error:
        refusals.add(Reason.MALFORMED, f"{name}: {_short(error)}")
        return False
    return True


def _short(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def _listed(holder: Any, *names: str) -> Iterator[Any]:
    """The objects in a list field, whatever else is there instead being left to the parser's own complaint."""
    if isinstance(holder, dict):
        for name in names:
            if isinstance(holder.get(name), list):
                yield from (item for item in holder[name] if isinstance(item, dict))


def _leaves(tree: Any) -> Iterator[tuple[list[Any], type[Message], str]]:
    """Every list of data points or spans, with the message type of its items and a name for complaints."""
    for resource in _listed(tree, "resourceMetrics", "resource_metrics"):
        for scope in _listed(resource, "scopeMetrics", "scope_metrics"):
            for metric in _listed(scope, "metrics"):
                for kind, point in _POINTS.items():
                    data = metric.get(kind)
                    for field in ("dataPoints", "data_points"):
                        if isinstance(data, dict) and isinstance(data.get(field), list):
                            yield data[field], point, f"{metric.get('name')}: {kind}.dataPoints"
    for resource in _listed(tree, "resourceSpans", "resource_spans"):
        for scope in _listed(resource, "scopeSpans", "scope_spans"):
            if isinstance(scope.get("spans"), list):
                yield scope["spans"], trace_pb2.Span, "spans"


def _hex_to_base64(item: Any) -> None:
    """Ids of a span, of its links, or of a point's exemplars, in place."""
    if not isinstance(item, dict):
        return
    for holder in (item, *_listed(item, "links", "exemplars")):
        for field in _HEX_FIELDS:
            if isinstance(holder.get(field), str):
                try:
                    holder[field] = base64.b64encode(binascii.unhexlify(holder[field])).decode()
                except ValueError:
                    holder[field] = 0  # Not hexadecimal: the parser refuses the item, naming the field.
