"""The OpenTelemetry SDK's own exporters, unchanged, against a real server: exact counts come out of the store."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult

from controlplane.contract import metrics
from controlplane.contract.clock import utc_now
from controlplane.contract.histogram import RELATIVE_ERROR
from tests.controlplane.telemetry import sdk_process
from tests.controlplane.telemetry.running_server import running

SCRIPT = Path(sdk_process.__file__)
CUMULATIVE, DELTA = AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA
TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
AGGREGATION = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"
EXPONENTIAL = "base2_exponential_bucket_histogram"


@pytest.fixture
def clock() -> Callable[[], datetime]:
    """The SDK stamps its points by the wall clock, so here the service must go by it too."""
    return utc_now


@pytest.fixture
def server(app: Any) -> Iterator[str]:
    with running(app) as url:
        yield url


def scalar(api: httpx.Client, metric: str) -> float:
    (series,) = api.get("/api/v1/scalars", params={"metric": metric, "window": "5m"}).json()["series"]
    return float(series["value"])


def ttft(api: httpx.Client, q: str = "0.5,0.95,0.99") -> dict[str, Any]:
    asked = {"metric": "ttft", "window": "5m", "by": "model", "node": "sdk-1", "q": q}
    (series,) = api.get("/api/v1/quantiles", params=asked).json()["series"]
    found: dict[str, Any] = series
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
        {"OTEL_EXPORTER_OTLP_COMPRESSION": "deflate", TEMPORALITY: "DELTA"},
        {AGGREGATION: EXPONENTIAL},
        {AGGREGATION: EXPONENTIAL, TEMPORALITY: "DELTA"},
    ],
    ids=["default", "gzip", "deflate delta", "exponential", "exponential delta"],
)
def test_a_program_and_its_restart(
    server: str, node_token: Callable[[str], str], api: httpx.Client, settings: dict[str, str]
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": server,
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{node_token('sdk-1')}",
        "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=sdk-1,tailwright.pool=chat",
    }
    everything: list[float] = []
    for seed, batches in ((1, 3), (2, 2)):
        ran = subprocess.run(
            [sys.executable, str(SCRIPT), str(seed), str(batches)],
            env=environment | settings,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0 and ran.stderr == "", ran.stderr
        everything += sdk_process.values(seed, batches)
        assert ttft(api)["count"] == len(everything)
        assert scalar(api, "output_tokens") == len(everything) * sdk_process.TOKENS
        assert scalar(api, "running") == batches
    found = ttft(api)
    assert found["mean"] == pytest.approx(float(np.mean(everything)))
    if settings.get(AGGREGATION) == EXPONENTIAL:
        # The SDK widens its buckets as values spread: 160 of them at scale 4 here, half as fine as ours.
        for q, estimate in found["quantiles"].items():
            assert estimate == pytest.approx(float(np.quantile(everything, float(q))), rel=found["relative_error"])
        assert found["relative_error"] <= 2 ** (2**-3) - 1
    else:
        assert found["relative_error"] > 10 * RELATIVE_ERROR  # The SDK's default bounds are meant for milliseconds.
    refused = api.get("/metrics").text
    assert 'tailwright_ingest_points_refused_total{reason="span",signal="traces"} 5.0' in refused
    assert 'signal="metrics"} ' not in "".join(line for line in refused.splitlines() if "points_refused_total{" in line)


class LostAnswers(requests.Session):
    """Each answer is lost once, and the request sent again."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        super().send(request, **options)
        return super().send(request, **options)


@pytest.mark.parametrize("temporality", [CUMULATIVE, DELTA])
@pytest.mark.parametrize("exponential", [False, True])
def test_answers_that_are_lost(
    server: str,
    node_token: Callable[[str], str],
    api: httpx.Client,
    temporality: AggregationTemporality,
    exponential: bool,
) -> None:
    exporter = OTLPMetricExporter(
        endpoint=f"{server}/v1/metrics",
        headers={"Authorization": f"Bearer {node_token('sdk-1')}"},
        session=LostAnswers(),
        preferred_temporality={Counter: temporality, Histogram: temporality},
        preferred_aggregation={Histogram: ExponentialBucketHistogramAggregation()} if exponential else None,
    )
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=1e9)
    provider = MeterProvider([reader], resource=Resource({metrics.NODE.name: "sdk-1"}))
    meter = provider.get_meter("test")
    histogram, counter = meter.create_histogram(metrics.TTFT.name, "s"), meter.create_counter(metrics.REQUESTS.name)
    for value in (0.001, 0.5, 40.0, 0.2):  # Farther and farther apart: an exponential histogram's scale falls.
        for _ in range(25):
            histogram.record(value, {metrics.MODEL.name: "m"})
            counter.add(1)
        assert provider.force_flush()
    provider.shutdown()
    found = ttft(api, "0,1")
    assert found["count"] == 100 and scalar(api, "requests") == 100
    assert found["mean"] == pytest.approx((0.001 + 0.5 + 40.0 + 0.2) / 4)
    assert found["quantiles"]["1"] == pytest.approx(40.0, rel=0.2 if exponential else 0.05)


def test_an_exporter_of_other_spans_is_content(
    server: str, node_token: Callable[[str], str], api: httpx.Client
) -> None:
    """A program that is traced for other reasons may send here too: no error, no retry, and it shows as refused."""
    exporter = OTLPSpanExporter(
        endpoint=f"{server}/v1/traces", headers={"Authorization": f"Bearer {node_token('sdk-1')}"}
    )
    results: list[SpanExportResult] = []
    original = exporter.export
    exporter.export = lambda spans: results.append(original(spans)) or results[-1]  # type: ignore[func-returns-value,method-assign]
    provider = TracerProvider(resource=Resource({metrics.NODE.name: "sdk-1", metrics.POOL.name: "chat"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("GET /", attributes={"http.route": "/", "odd": [1.5, 2.5]}):
        with tracer.start_as_current_span(
            metrics.SPAN_REQUEST,
            attributes={
                metrics.SPAN_REQUEST_ID: "r1",
                metrics.SPAN_INPUT_TOKENS: 12,
                metrics.SPAN_OUTPUT_TOKENS: 3,
            },
        ):
            pass
    provider.shutdown()
    assert results == [SpanExportResult.SUCCESS] * 2
    (kept,) = api.get("/api/v1/requests", params={"window": "5m"}).json()["items"]
    assert kept["request_id"] == "r1" and kept["node"] == "sdk-1" and kept["prompt_tokens"] == 12
    assert 'tailwright_ingest_points_refused_total{reason="span",signal="traces"} 1.0' in api.get("/metrics").text
