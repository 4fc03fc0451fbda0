"""Prometheus remote write 1.0: the fleet's gauges of /metrics, pushed instead of scraped.

Guarantee: the same families, names and labels as /metrics shows, each sample at the end of the minute it is about, in
order; a series that has ended gets Prometheus' staleness marker, so that no dashboard goes on with its last value.
"""

import struct
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import cramjam
import httpx

from controlplane.contract.clock import Clock
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.outgoing import ANYWHERE, new_client
from controlplane.telemetry.forwarding.attempt import DEADLINE_S, post
from controlplane.telemetry.forwarding.exporter import Sent
from controlplane.telemetry.forwarding.prompb import GAUGE, WriteRequest
from controlplane.telemetry.queries import fleet_gauges
from controlplane.telemetry.queries.fleet_gauges import SPAN_S, Family
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.values.timespan import Span, to_ns

HEADERS = {
    "Content-Type": PROTOBUF,
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "User-Agent": "tailwright",
}
STALE: float = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
"""The NaN that Prometheus takes for "this series has ended" (prometheus/model/value, StaleNaN)."""
Series = tuple[tuple[str, str], ...]


class RemoteWriteSender:
    """Implements `controlplane.telemetry.forwarding.exporter.Sender`. url: the receiver's whole remote-write URL.

    labels: added to every series, as Prometheus' own external_labels are.
    """

    name = "remote_write"

    def __init__(
        self,
        reader: TelemetryReader,
        url: str,
        clock: Clock,
        *,
        headers: Mapping[str, str],
        labels: Mapping[str, str],
        interval_s: int,
        http: httpx.Client | None = None,
    ) -> None:
        self.interval_s = interval_s
        self._reader = reader
        self._url = url
        self._clock = clock
        self._headers = {**headers, **HEADERS}
        self._labels = dict(labels)
        self._http = http or new_client(DEADLINE_S, ANYWHERE)  # Who starts the service names it
        self._before: frozenset[Series] = frozenset()

    def close(self) -> None:
        self._http.close()

    def send(self, interval: Span) -> Sent:
        families = fleet_gauges.read(self._reader, Span(interval.end - timedelta(seconds=SPAN_S), interval.end))
        present = samples_of(families, self._labels)
        gone = dict.fromkeys(self._before - present.keys(), STALE)
        request = encode(families, present | gone, to_ns(interval.end) // 1_000_000)
        body = bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
        post(self._http, self._url, body, self._headers, self._clock)
        self._before = frozenset(present)
        return Sent(points=len(present))


def samples_of(families: list[Family], labels: Mapping[str, str]) -> dict[Series, float]:
    """Each series, its labels sorted by name as the protocol wants them, with its value. Empty labels are left out."""
    found: dict[Series, float] = {}
    for family in families:
        for values, value in family.samples:
            own = dict(zip(family.labels, values, strict=True))
            given = {**labels, **own, "__name__": family.name}
            found[tuple(sorted((name, text) for name, text in given.items() if text))] = value
    return found


def encode(families: list[Family], samples: Mapping[Series, float], time_ms: int) -> Any:
    request = WriteRequest()
    for family in families:
        request.metadata.add(type=GAUGE, metric_family_name=family.name, help=family.help)
    for series, value in samples.items():
        added = request.timeseries.add()
        for name, text in series:
            added.labels.add(name=name, value=text)
        added.samples.add(value=value, timestamp=time_ms)
    return request
