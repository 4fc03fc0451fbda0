"""OTLP trace bodies to messages.

Guarantee: a span or resource that is damaged within itself (text that is no UTF-8, values nested too deeply) is refused
by itself; `BadRequest` is for bodies that are no trace request at all.
"""

from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.telemetry.otlp import otlp_bodies
from controlplane.telemetry.otlp.otlp_view import TracesView
from controlplane.telemetry.values.refusal import Reason, Refusals

_DAMAGED = (DecodeError, ValueError, RecursionError)
R = TypeVar("R", bound=Any)


def read_spans(plain: bytes, kind: str, refusals: Refusals) -> ExportTraceServiceRequest:
    """`kind` is PROTOBUF or otlp_bodies.JSON. Single damaged spans go to `refusals`."""
    try:
        return _counted(otlp_bodies.read(plain, kind, ExportTraceServiceRequest(), refusals))
    except BadRequest:
        if kind != PROTOBUF:
            raise
        view = TracesView()
        try:
            view.ParseFromString(plain)
        except _DAMAGED:
            pass
        else:
            return _salvaged(_counted(view), refusals)
        raise


def _counted(request: R) -> R:
    """The request, if it is of a size that one should be. Raises `TooLarge`."""
    items = len(request.resource_spans)
    otlp_bodies.check_items(items)
    items += sum(len(one.scope_spans) for one in request.resource_spans)
    otlp_bodies.check_items(items)
    items += sum(len(scope.spans) for one in request.resource_spans for scope in one.scope_spans)
    otlp_bodies.check_items(items)
    return request


def _salvaged(view: TracesView, refusals: Refusals) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    for resource_spans in view.resource_spans:
        found = request.resource_spans.add()
        spans = [span for scope in resource_spans.scope_spans for span in scope.spans]
        try:
            found.resource.MergeFromString(resource_spans.resource)
        except _DAMAGED as error:
            refusals.add(Reason.MALFORMED, f"resource: {error}", max(1, len(spans)))
            del request.resource_spans[-1]
            continue
        kept = found.scope_spans.add().spans
        for span in spans:
            try:
                kept.add().MergeFromString(span)
            except _DAMAGED as error:
                refusals.add(Reason.MALFORMED, f"spans: {error}")
                del kept[-1]
    return request
