"""Remote write: what the message says, and a real Prometheus that takes it."""

import math
import struct
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import cramjam
import httpx
import pytest
from prometheus_client import CollectorRegistry

from controlplane.contract import metrics
from controlplane.contract.clock import utc_now
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.forwarding.exporter import Exporter
from controlplane.telemetry.forwarding.meters import ExportMeters
from controlplane.telemetry.forwarding.prompb import WriteRequest
from controlplane.telemetry.forwarding.remote_write import STALE, RemoteWriteSender
from controlplane.telemetry.values.interval import floor
from tests.controlplane.telemetry.ingesting import ingest_metrics
from tests.peers import prometheus
from tests.processes import free_port, wait_for

CONFIG = "global: {scrape_interval: 1m}\n"


def sender_of(reader: Any, url: str, **more: Any) -> RemoteWriteSender:
    return RemoteWriteSender(reader, url, utc_now, headers={}, labels={"cluster": "eu"}, interval_s=15, **more)


def test_a_message_is_the_protocol_s(reader: Any) -> None:
    bodies: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        bodies.append(request)
        return httpx.Response(204)

    end = floor(utc_now(), 15)
    reader.add("ttft", end - timedelta(seconds=5), 0.25, pool="chat", prompt_bucket="<=128")
    sender = sender_of(reader, "http://there/api/v1/write", http=httpx.Client(transport=httpx.MockTransport(take)))
    sent = sender.send(Span(end - timedelta(seconds=15), end))
    headers = bodies[0].headers
    assert headers["Content-Encoding"] == "snappy" and headers["X-Prometheus-Remote-Write-Version"] == "0.1.0"
    request = WriteRequest.FromString(bytes(cramjam.snappy.decompress_raw(bodies[0].content)))
    assert len(request.timeseries) == sent.points > 0
    for series in request.timeseries:
        names = [label.name for label in series.labels]
        assert names == sorted(names) and len(set(names)) == len(names)
        assert {"__name__": 1, "cluster": 1}.items() <= dict.fromkeys(names, 1).items()
        assert all(label.value for label in series.labels)
        assert [sample.timestamp for sample in series.samples] == [int(end.timestamp() * 1000)]
    # A minute later the pool is silent: each of its series is marked as ended, once.
    for expected in (sent.points - 1, 0):
        end += timedelta(minutes=1)
        sender.send(Span(end - timedelta(seconds=15), end))
        request = WriteRequest.FromString(bytes(cramjam.snappy.decompress_raw(bodies[-1].content)))
        values = [series.samples[0].value for series in request.timeseries]
        assert sum(math.isnan(value) for value in values) == expected


def test_the_staleness_marker_keeps_its_bits_on_the_wire() -> None:
    request = WriteRequest()
    request.timeseries.add().samples.add(value=STALE, timestamp=1)
    assert struct.pack("<Q", 0x7FF0000000000002) in request.SerializeToString()


def test_a_real_prometheus_has_the_pushed_gauges(
    tmp_path: Path, store: Any, database: Database, make_report: Any
) -> None:
    with prometheus(tmp_path / "prometheus", CONFIG, free_port(), "--web.enable-remote-write-receiver") as receiver:
        sender = sender_of(store, f"{receiver.url}/api/v1/write")
        exporter = Exporter(sender, database, ExportMeters(CollectorRegistry()), delay_s=0, longest_lag_s=3600)
        end = floor(utc_now(), 15)
        exporter.tick(end - timedelta(seconds=30))
        for node in ("a", "b"):
            report = make_report(node=node, pool="chat", start=end - timedelta(seconds=10))
            report.histogram([0.1, 0.2, 0.4], prompt_bucket="<=128")
            report.histogram([1.0, 2.0], name=metrics.E2E.name, prompt_bucket="<=128")
            report.histogram([0.5], name=metrics.QUEUE.name)
            report.number(metrics.REQUESTS.name, 30.0)
            ingest_metrics(store, report.request)
        assert exporter.tick(end) == 2, exporter.error
        expected = store.histograms(Question("ttft", Span(end - timedelta(minutes=1), end)))[0].total.quantile(0.99)
        (found,) = wait_for(
            "the pushed gauge",
            lambda: receiver.query(f'tailwright_fleet_ttft_seconds{{pool="chat", q="0.99"}} @ {end.timestamp()}'),
        )
        assert found["metric"]["cluster"] == "eu"
        assert float(found["value"][1]) == expected
        (rate,) = receiver.query(f'tailwright_fleet_requests_per_second{{pool="chat"}} @ {end.timestamp()}')
        assert float(rate["value"][1]) == pytest.approx(60 / 60)
        (share,) = receiver.query(f'tailwright_fleet_component_ratio{{component="queue"}} @ {end.timestamp()}')
        assert float(share["value"][1]) == pytest.approx(1.0 / 6.0)
        known = httpx.get(f"{receiver.url}/api/v1/metadata", params={"metric": "tailwright_fleet_ttft_seconds"}).json()
        assert known["status"] == "success"


@pytest.fixture
def clock() -> Callable[[], Any]:
    """Prometheus refuses samples that are far from its own clock."""
    return utc_now
