"""Other people's programs against ours: the OpenTelemetry SDK as a sender, promtool as a reader of /metrics."""

import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

from controlplane.contract import metrics
from controlplane.contract.clock import utc_now
from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.db.database import Database
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_metrics, ingest_traces
from tests.controlplane.telemetry.running_server import running
from tests.made_tables import create_tables

pytestmark = pytest.mark.slow

DELTA = {Counter: AggregationTemporality.DELTA, Histogram: AggregationTemporality.DELTA}


@pytest.fixture
def clock() -> Callable[[], datetime]:
    """The SDK stamps its points by the wall clock, so here the service must go by it too."""
    return utc_now


@pytest.fixture
def server(app: Any) -> Iterator[str]:
    """A real server on a free port."""
    with running(app) as url:
        yield url


def test_the_opentelemetry_sdk_is_a_first_class_sender(
    server: str, node_token: Callable[[str], str], database: Database, api: httpx.Client
) -> None:
    exporter = OTLPMetricExporter(
        endpoint=f"{server}/v1/metrics",
        headers={"Authorization": f"Bearer {node_token('sdk-1')}"},
        compression=Compression.Gzip,
        preferred_temporality=DELTA,
    )
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=1e9)
    # 160 buckets of scale 5 span a factor of 32; more of them keep the scale at 5 for a wider spread.
    view = View(instrument_type=Histogram, aggregation=ExponentialBucketHistogramAggregation(max_size=640))
    resource = Resource({metrics.NODE.name: "sdk-1", metrics.POOL.name: "chat"})
    provider = MeterProvider([reader], resource=resource, views=[view])
    meter = provider.get_meter("test")
    ttft = meter.create_histogram(metrics.TTFT.name, unit="s")
    tokens = meter.create_counter(metrics.OUTPUT_TOKENS.name)
    values = np.random.default_rng(11).lognormal(-1, 0.8, 3000)
    for i, value in enumerate(values.tolist()):
        ttft.record(value, {metrics.MODEL.name: "m", metrics.PROMPT_BUCKET.name: "<=128"})
        tokens.add(2)
        if i % 1000 == 999:
            assert provider.force_flush()
    provider.shutdown()
    answer = api.get("/api/v1/quantiles", params={"metric": "ttft", "node": "sdk-1", "by": "model"}).json()
    (series,) = answer["series"]
    assert series["count"] == 3000 and series["labels"] == {"model": "m"}
    assert answer["relative_error"] == RELATIVE_ERROR
    for q, estimate in series["quantiles"].items():
        assert estimate == pytest.approx(float(np.quantile(values, float(q))), rel=RELATIVE_ERROR)
    total = api.get("/api/v1/scalars", params={"metric": "output_tokens"}).json()["series"][0]["value"]
    assert total == 6000


def test_promtool_accepts_the_exposition(
    app: Any, api: httpx.Client, store: TelemetryStore, make_report: Any, make_spans: Callable[..., Any]
) -> None:
    now = utc_now().replace(microsecond=0)
    report = make_report(start=now - timedelta(seconds=now.second % 5 + 10), pool='a "quoted"\npool')
    for name in (metrics.TTFT.name, metrics.ITL.name, metrics.E2E.name):
        report.histogram([0.1, 0.2, 0.9], name=name)
    report.number("unknown", 1)
    ingest_metrics(store, report.request)
    ingest_metrics(store, report.request)
    ingest_traces(store, make_spans("a", [{"id": "r", "arrival": now}]))
    written = store.tick(now + timedelta(hours=1))
    assert written >= 6  # Each metric for its node and for the fleet, at one level at least.
    answer = api.get("/metrics", headers={"Authorization": ""})
    assert answer.status_code == 200
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=answer.content, capture_output=True, check=False, timeout=60
    )
    assert checked.returncode == 0, checked.stdout.decode() + checked.stderr.decode()
    text = answer.text
    for line in (
        'tailwright_ingest_reports_total{signal="metrics"} 2.0',
        'tailwright_ingest_points_accepted_total{signal="metrics"} 3.0',
        'tailwright_ingest_points_repeated_total{signal="metrics"} 3.0',
        'tailwright_ingest_points_refused_total{reason="metric",signal="metrics"} 2.0',
        'tailwright_ingest_points_accepted_total{signal="traces"} 1.0',
        f"tailwright_frames_written_total {float(written)}",
        "tailwright_ingest_queue_depth 0.0",
        "tailwright_ingest_commit_seconds_count 3.0",
    ):
        assert line in text, line
    assert 'tailwright_fleet_ttft_seconds{pool="a \\"quoted\\"\\npool",q="0.99"}' in text


def test_two_services_have_two_registries(tmp_path: Path, make_report: Any) -> None:
    databases = [Database(f"sqlite:///{tmp_path / name}.db") for name in ("a", "b")]
    for database in databases:
        create_tables(database)
    stores = [TelemetryStore(database, utc_now) for database in databases]
    assert stores[0].meters.registry is not stores[1].meters.registry
    for database in databases:
        database.close()
