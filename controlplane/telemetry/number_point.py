"""One OTLP number point to [value, time_ns]."""

import math
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

from controlplane.telemetry.refusal import Reason, Refused


def values(name: str, point: NumberDataPoint, *, must_grow: bool) -> list[Any]:
    """Raises `Refused` for NaN, infinities, and a negative part of a monotonic sum."""
    which = point.WhichOneof("value")
    if which is None:
        raise Refused(Reason.VALUE, f"{name}: neither as_double nor as_int is set")
    value = float(getattr(point, which))
    if not math.isfinite(value):
        raise Refused(Reason.VALUE, f"{name}: {which} is {value}, must be finite")
    if must_grow and value < 0:
        raise Refused(Reason.VALUE, f"{name}: {which} is {value}, a monotonic sum cannot be negative")
    return [value, point.time_unix_nano]
