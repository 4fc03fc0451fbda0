"""What an OTLP metric is stored as, or why it is not."""

import threading
from dataclasses import dataclass
from typing import NamedTuple

from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.contract.errors import nearest
from controlplane.contract.metrics import BY_NAME, METRICS, MetricKind
from controlplane.telemetry.otlp.labels import hash64
from controlplane.telemetry.values.refusal import Reason, Refused

OWN_PREFIXES = ("gen_ai.", "tailwright.")
MAX_NAME = 256
REMEMBERED = 10_000
MAX_REMEMBERED_BYTES = 1024
"""Of scope, name and unit: longer ones are read each time, so that what is remembered stays small."""


class StatedMetric(NamedTuple):
    """What a sender says of a metric. data: the name of its data field, None without one; temporality: 0 of a gauge."""

    scope: bytes
    name: bytes
    unit: bytes
    data: str | None
    temporality: int
    is_monotonic: bool


@dataclass(frozen=True, slots=True)
class StoredMetric:
    """name: on the wire; key: of (scope, name), for recognising repeats; cumulative: points are running totals."""

    name: str
    kind: MetricKind
    key: int
    is_cumulative: bool
    must_grow: bool


class MetricKinds:
    """`kept` with a memory of what it has said. Thread-safe."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._limit = remembered
        self._lock = threading.Lock()
        self._found: dict[StatedMetric, StoredMetric | tuple[Reason, str]] = {}

    def of(self, stated: StatedMetric, *, hint: bool = True) -> StoredMetric:
        """Raises `Refused` when the metric is not to be kept; `hint`: with the nearest name that is kept."""
        found = self._found.get(stated)
        if found is None:
            try:
                found = kept(stated, hint=hint)
            except Refused as refused:
                found = (refused.reason, refused.message)
            if hint and len(stated.scope) + len(stated.name) + len(stated.unit) <= MAX_REMEMBERED_BYTES:
                self._remember(stated, found)
        if isinstance(found, tuple):
            raise Refused(*found)
        return found

    def _remember(self, stated: StatedMetric, found: StoredMetric | tuple[Reason, str]) -> None:
        with self._lock:
            if len(self._found) >= self._limit:
                self._found.clear()
            self._found[stated] = found


def kept(stated: StatedMetric, *, hint: bool = True) -> StoredMetric:
    """Raises `Refused` when the metric is not to be kept."""
    try:
        name, unit = stated.name.decode(), stated.unit.decode()
    except UnicodeDecodeError:
        raise Refused(Reason.METRIC, f"metric name {stated.name[:40]!r}: not text in UTF-8") from None
    data = stated.data
    _check_name(name, hint)
    if data is None:
        raise Refused(Reason.METRIC, f"{name}: has no data field")
    if data == "summary":
        raise Refused(Reason.METRIC, f"{name}: summary is not kept (quantiles cannot be merged); send a histogram")
    kind = MetricKind.HISTOGRAM if data in ("histogram", "exponential_histogram") else MetricKind(data)
    is_cumulative = stated.temporality == otlp.AGGREGATION_TEMPORALITY_CUMULATIVE
    if data == "sum" and is_cumulative and not stated.is_monotonic:
        # An up-down counter's running value is a gauge by another name: the last value, not what was added.
        kind, is_cumulative = MetricKind.GAUGE, False
    elif data != "gauge" and not is_cumulative and stated.temporality != otlp.AGGREGATION_TEMPORALITY_DELTA:
        raise Refused(Reason.TEMPORALITY, f"{name}: aggregation_temporality must be DELTA or CUMULATIVE")
    known = BY_NAME.get(name)
    if known is not None and known.kind is not kind:
        raise Refused(Reason.METRIC, f"{name}: is a {known.kind.value}, not a {data}")
    if known is not None and kind is MetricKind.HISTOGRAM and unit not in ("", known.unit):
        raise Refused(Reason.METRIC, f"{name}: unit must be {known.unit!r}, not {unit[:80]!r}")
    key = hash64(b"\0".join((len(stated.scope).to_bytes(4, "little"), stated.scope, stated.name)))
    return StoredMetric(name, kind, key, is_cumulative, must_grow=data == "sum" and stated.is_monotonic)


def _check_name(name: str, hint: bool) -> None:
    if name in BY_NAME:
        return
    if not name.startswith(OWN_PREFIXES):
        near = nearest(name, [known.name for known in METRICS]) if hint and len(name) <= MAX_NAME else ""
        mend = near if near.startswith("did") else f"names start with {' or '.join(OWN_PREFIXES)}"
        raise Refused(Reason.METRIC, f"metric name {name[:MAX_NAME]!r} is not kept: {mend}")
    if len(name) > MAX_NAME or "\0" in name:
        raise Refused(Reason.METRIC, f"metric name {name[:40]!r}...: at most {MAX_NAME} characters, no zero byte")
