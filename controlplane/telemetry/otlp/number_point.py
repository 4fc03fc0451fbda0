"""One OTLP number point, checked."""

from typing import Any

from controlplane.telemetry.otlp.raw_point import RawNumber
from controlplane.telemetry.values.magnitude import LARGEST, fits
from controlplane.telemetry.values.refusal import Reason, Refused


def read_number(name: str, point: Any, *, must_grow: bool) -> RawNumber:
    """Of a NumberDataPoint. Raises `Refused` for NaN, what is too large, and a negative part of a monotonic sum."""
    which = point.WhichOneof("value")
    if which is None:
        raise Refused(Reason.VALUE, f"{name}: neither as_double nor as_int is set")
    value: int | float = getattr(point, which)
    if not fits(value):
        raise Refused(Reason.VALUE, f"{name}: {which} is {value}, must be finite and at most {LARGEST:g}")
    if must_grow and value < 0:
        raise Refused(Reason.VALUE, f"{name}: {which} is {value}, a monotonic sum cannot be negative")
    return RawNumber(point.start_time_unix_nano, point.time_unix_nano, value)
