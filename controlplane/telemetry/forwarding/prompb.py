"""The messages of Prometheus remote write 1.0 (prometheus/prompb: remote.proto, types.proto), as far as it is sent.

Declared here and built by protobuf itself at import: the official files want the gogoproto options, and no package has
their generated form without an SDK around it. Numbers and types are the protocol's; a receiver ignores names.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "tailwright.prometheus"
_MESSAGES: dict[str, list[tuple[str, int, int, str | None, bool]]] = {
    # name, number, type, message, repeated
    "Label": [("name", 1, _FIELD.TYPE_STRING, None, False), ("value", 2, _FIELD.TYPE_STRING, None, False)],
    "Sample": [("value", 1, _FIELD.TYPE_DOUBLE, None, False), ("timestamp", 2, _FIELD.TYPE_INT64, None, False)],
    "TimeSeries": [
        ("labels", 1, _FIELD.TYPE_MESSAGE, "Label", True),
        ("samples", 2, _FIELD.TYPE_MESSAGE, "Sample", True),
    ],
    "MetricMetadata": [
        ("type", 1, _FIELD.TYPE_INT32, None, False),  # An enum there, the same on the wire.
        ("metric_family_name", 2, _FIELD.TYPE_STRING, None, False),
        ("help", 4, _FIELD.TYPE_STRING, None, False),
        ("unit", 5, _FIELD.TYPE_STRING, None, False),
    ],
    "WriteRequest": [
        ("timeseries", 1, _FIELD.TYPE_MESSAGE, "TimeSeries", True),
        ("metadata", 3, _FIELD.TYPE_MESSAGE, "MetricMetadata", True),
    ],
}
GAUGE = 2
"""MetricMetadata.MetricType.GAUGE."""


def _build() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="tailwright/remote_write.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of, repeated in fields:
            added = message.field.add(name=field, number=number, type=kind)
            added.label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            if of is not None:
                added.type_name = f".{_PACKAGE}.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.WriteRequest"))


WriteRequest: Any = _build()
"""The message class: `timeseries` of labels and samples (milliseconds since the epoch), and `metadata`."""
