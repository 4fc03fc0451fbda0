"""OTLP's JSON encoding (OTLP 1.x, "JSON Protobuf Encoding"): the protobuf mapping, but trace and span ids are hex.

Guarantee: what does not fit the schema is refused at the smallest level that holds it (data point or span, metric,
scope, resource), the others are kept; a body that is no JSON, or where nothing fits, raises `BadRequest`. Unknown
fields are ignored, as OTLP asks.
"""

import base64
import binascii
import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, TypeVar

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from controlplane.contract.errors import BadRequest, TooLarge
from controlplane.telemetry.values.refusal import Reason, Refusals

M = TypeVar("M", bound=Message)
Items = tuple[list[Any], type[Message], str]
"""A list field, the type of its items, and a name for complaints."""

_POINTS: dict[str, type[Message]] = {
    "gauge": metrics_pb2.NumberDataPoint,
    "sum": metrics_pb2.NumberDataPoint,
    "histogram": metrics_pb2.HistogramDataPoint,
    "exponentialHistogram": metrics_pb2.ExponentialHistogramDataPoint,
    "exponential_histogram": metrics_pb2.ExponentialHistogramDataPoint,
    "summary": metrics_pb2.SummaryDataPoint,
}
_Level = tuple[str, str, type[Message]]
_METRICS: tuple[_Level, ...] = (
    ("resourceMetrics", "resource_metrics", metrics_pb2.ResourceMetrics),
    ("scopeMetrics", "scope_metrics", metrics_pb2.ScopeMetrics),
    ("metrics", "metrics", metrics_pb2.Metric),
)
_SPANS: tuple[_Level, ...] = (
    ("resourceSpans", "resource_spans", trace_pb2.ResourceSpans),
    ("scopeSpans", "scope_spans", trace_pb2.ScopeSpans),
)
_HEX_FIELDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
_MISFITS = (json_format.ParseError, TypeError, ValueError, AttributeError, KeyError, OverflowError, RecursionError)


def parse(body: bytes, message: M, refusals: Refusals, most_items: int) -> M:
    """Fill `message` (an export request) from JSON bytes. Raises `TooLarge` for more than `most_items` points etc."""
    tree = _loads(body)
    if not isinstance(tree, dict):
        raise BadRequest("body: must be a JSON object", field="body")
    if _items_within(tree, most_items) > most_items:
        raise TooLarge(f"body: more than {most_items} points or spans; send smaller reports", field="body")
    for items, _, _ in _leaves(tree):
        for item in items:
            _hex_to_base64(item)
    try:
        return _fill(tree, message)
    except _MISFITS as error:
        first = _short(error)
        message.Clear()
    _prune(tree, refusals)
    try:
        _fill(tree, message)
    except _MISFITS as error:
        raise BadRequest(f"body: not a {message.DESCRIPTOR.name}: {_short(error)}", field="body") from error
    if not message.ByteSize():
        raise BadRequest(f"body: not a {message.DESCRIPTOR.name}: {first}", field="body")
    return message


def _loads(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        first = error
    # Half of a surrogate pair, or NaN: the lenient parser takes it, and only the point that holds it is refused.
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest(f"body: not JSON: {first}", field="body") from first


def _fill(tree: Any, message: M) -> M:
    json_format.ParseDict(tree, message, ignore_unknown_fields=True)
    message.ByteSize()
    return message


def _prune(tree: dict[str, Any], refusals: Refusals) -> None:
    """Take out, in place, what does not fit; the innermost first, so that the rest around it stays."""
    for items, kind, name in _leaves(tree):
        items[:] = [item for item in items if _fits(item, kind, name, refusals)]
    for items, kind, name in reversed([*_branches(tree, _METRICS), *_branches(tree, _SPANS)]):
        items[:] = [item for item in items if _fits(item, kind, name, refusals)]


def _fits(item: Any, kind: type[Message], name: str, refusals: Refusals) -> bool:
    try:
        _fill(item, kind())
    except _MISFITS as error:
        refusals.add(Reason.MALFORMED, f"{name}: {_short(error)}", max(1, _points_within(item)))
        return False
    return True


def _points_within(item: Any) -> int:
    """Data points and spans that are refused with an item."""
    whole = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [item]}]}]}
    found = [whole, {"resourceMetrics": [{"scopeMetrics": [item]}]}, {"resourceMetrics": [item]}]
    found += [{"resourceSpans": [{"scopeSpans": [item]}]}, {"resourceSpans": [item]}]
    return max(sum(len(items) for items, _, _ in _leaves(tree)) for tree in found)


def _items_within(tree: dict[str, Any], most: int) -> int:
    """The items of all lists down to the data points and spans; more than `most` are not counted."""
    found = 0
    for items, _, _ in chain(_branches(tree, _METRICS), _branches(tree, _SPANS), _leaves(tree)):
        found += len(items)
        if found > most:
            break
    return found


def _short(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    text = text.encode(errors="replace").decode()  # It may quote half of a surrogate pair, which no answer can hold.
    return text if len(text) <= 200 else text[:197] + "..."


def _listed(holder: Any, *names: str) -> Iterator[Any]:
    """The objects in a list field, whatever else is there instead being left to the parser's own complaint."""
    if isinstance(holder, dict):
        for name in names:
            if isinstance(holder.get(name), list):
                yield from (item for item in holder[name] if isinstance(item, dict))


def _branches(tree: Any, levels: tuple[_Level, ...]) -> Iterator[Items]:
    """Every list above the data points or spans, outer ones first."""
    if not levels or not isinstance(tree, dict):
        return
    camel, snake, kind = levels[0]
    for name in dict.fromkeys((camel, snake)):
        if isinstance(tree.get(name), list):
            yield tree[name], kind, camel
            for item in tree[name]:
                yield from _branches(item, levels[1:])


def _leaves(tree: Any) -> Iterator[Items]:
    """Every list of data points or spans."""
    for resource in _listed(tree, "resourceMetrics", "resource_metrics"):
        for scope in _listed(resource, "scopeMetrics", "scope_metrics"):
            for metric in _listed(scope, "metrics"):
                for kind, point in _POINTS.items():
                    data = metric.get(kind)
                    for field in ("dataPoints", "data_points"):
                        if isinstance(data, dict) and isinstance(data.get(field), list):
                            yield data[field], point, f"{_shown(metric.get('name'))}: {kind}.dataPoints"
    for resource in _listed(tree, "resourceSpans", "resource_spans"):
        for scope in _listed(resource, "scopeSpans", "scope_spans"):
            if isinstance(scope.get("spans"), list):
                yield scope["spans"], trace_pb2.Span, "spans"


def _shown(name: Any) -> str:
    return str(name)[:100].encode(errors="replace").decode()


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
