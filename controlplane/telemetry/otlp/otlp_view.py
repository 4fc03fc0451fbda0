"""OTLP's own messages, read with their attributes, names and bucket counts left as bytes.

Each class here is OTLP's schema (taken from `opentelemetry-proto`) with some fields declared `bytes`, which is the same
on the wire. So a report's attribute sets can be looked up by their bytes instead of being parsed again each time, its
packed bucket counts decoded in one go, and text that is no UTF-8 spoils one point or span instead of the whole report.

What a sender packs differently (unpacked repeated fields) is kept as an unknown field: `SerializeToString` of a view
gives all that was sent, for the real class to read.
"""

from typing import Any

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

_FIELD = descriptor_pb2.FieldDescriptorProto

_AS_BYTES = {
    "ResourceMetrics.resource",
    "ScopeMetrics.scope",
    "Metric.name",
    "Metric.unit",
    "NumberDataPoint.attributes",
    "HistogramDataPoint.attributes",
    "HistogramDataPoint.bucket_counts",
    "HistogramDataPoint.explicit_bounds",
    "HistogramDataPoint.exemplars",
    "ExponentialHistogramDataPoint.attributes",
    "ExponentialHistogramDataPoint.negative",
    "ExponentialHistogramDataPoint.exemplars",
    "Buckets.bucket_counts",
    "Summary.data_points",
    "ResourceSpans.resource",
    "ScopeSpans.scope",
    "ScopeSpans.spans",
}
_LEFT_OUT = {
    "ResourceMetrics.schema_url",
    "ScopeMetrics.schema_url",
    "Metric.description",
    "Metric.metadata",
    "NumberDataPoint.exemplars",
    "ResourceSpans.schema_url",
    "ScopeSpans.schema_url",
}


def _view(of: FileDescriptor, root: str) -> Any:
    """The class of the message `root` in a view of a whole .proto file. Its fields are the schema's (untyped here)."""
    file = descriptor_pb2.FileDescriptorProto()
    of.CopyToProto(file)
    del file.dependency[:]
    file.name, file.package = f"tailwright/view/{of.name}", f"tailwright.view.{of.package}"
    pending = list(file.message_type)
    while pending:
        message = pending.pop()
        pending.extend(message.nested_type)
        kept = []
        for field in message.field:
            place = f"{message.name}.{field.name}"
            if place in _AS_BYTES:
                field.type = _FIELD.TYPE_BYTES
                field.ClearField("type_name")
                field.ClearField("options")
            elif place in _LEFT_OUT or field.type_name.startswith(".opentelemetry.proto.common"):
                continue
            if field.type_name:
                field.type_name = field.type_name.replace(f".{of.package}.", f".{file.package}.")
            kept.append(field)
        copies = [_FIELD.FromString(field.SerializeToString()) for field in kept]
        del message.field[:]
        message.field.extend(copies)
    pool = DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{root}"))


MetricsView = _view(metrics_pb2.DESCRIPTOR, "MetricsData")
"""What an `ExportMetricsServiceRequest` holds: the two are the same on the wire."""
TracesView = _view(trace_pb2.DESCRIPTOR, "TracesData")
"""What an `ExportTraceServiceRequest` holds."""
