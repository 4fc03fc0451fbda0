"""A store on a clock that tests move, senders' reports, and a small application around the domain's own routes."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.api import error_handlers
from controlplane.api.unknown_fields import refuse_unknown_fields
from controlplane.auth import store as tokens
from controlplane.auth.token_cache import TokenCache
from controlplane.contract import metrics
from controlplane.contract.bodies.access import Scope
from controlplane.db.database import Database
from controlplane.telemetry.frames import clickhouse_frames
from controlplane.telemetry.http.endpoints import router
from controlplane.telemetry.http.receiver import Application
from controlplane.telemetry.http.telemetry_parts import TelemetryParts
from controlplane.telemetry.queries.feeds import Streams
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.databases import any_database  # noqa: F401 - a fixture of all tests here
from tests.controlplane.telemetry.frames.embedded_clickhouse import EmbeddedClickHouse
from tests.keyrings import keyring_of
from tests.made_tables import create_tables

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DELTA = otlp.AGGREGATION_TEMPORALITY_DELTA


class TestClock:
    """The present, as a test sets it."""

    __test__ = False

    def __init__(self) -> None:
        self.now = START + timedelta(minutes=10)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def attribute(name: str, value: Any) -> KeyValue:
    item = KeyValue(key=name)
    if isinstance(value, bool):
        item.value.bool_value = value
    elif isinstance(value, int):
        item.value.int_value = value
    elif isinstance(value, float):
        item.value.double_value = value
    elif isinstance(value, list):
        for one in value:
            item.value.array_value.values.add().int_value = one
    else:
        item.value.string_value = value
    return item


class Report:
    """Builds one node's OTLP reports as an agent does: delta points, start and end aligned to 5 s."""

    def __init__(self, node: str = "n1", pool: str = "chat", start: datetime = START, seconds: float = 5.0) -> None:
        self.request = ExportMetricsServiceRequest()
        resource = self.request.resource_metrics.add()
        resource.resource.attributes.extend([attribute(metrics.NODE.name, node), attribute(metrics.POOL.name, pool)])
        self.metrics = resource.scope_metrics.add().metrics
        self.start_ns = int(start.timestamp()) * 10**9
        self.end_ns = self.start_ns + int(seconds * 1e9)

    def _data(self, name: str, kind: str, unit: str = "s") -> Any:
        metric = self.metrics.add(name=name, unit=unit)
        data = getattr(metric, kind)
        if kind != "gauge":
            data.aggregation_temporality = DELTA
        if kind == "sum":
            data.is_monotonic = True
        return data

    def _stamp(self, point: Any, labels: dict[str, Any]) -> Any:
        point.start_time_unix_nano, point.time_unix_nano = self.start_ns, self.end_ns
        point.attributes.extend(attribute(name, value) for name, value in labels.items())
        return point

    def histogram(
        self, values: Sequence[float], name: str = metrics.TTFT.name, scale: int = 5, **labels: Any
    ) -> otlp.ExponentialHistogramDataPoint:
        """One exponential histogram point of these (positive) values."""
        named = {
            attribute.name: labels[attribute.label] for attribute in metrics.ATTRIBUTES if attribute.label in labels
        }
        point = self._stamp(self._data(name, "exponential_histogram").data_points.add(), named)
        indices = [math.ceil(math.log2(value) * 2.0**scale) - 1 for value in values]
        point.scale = scale
        point.count = len(values)
        point.sum, point.min, point.max = math.fsum(values), min(values), max(values)
        point.positive.offset = min(indices)
        point.positive.bucket_counts.extend(np.bincount(np.array(indices) - min(indices)).tolist())
        return point  # type: ignore[no-any-return]

    def number(self, name: str, value: float, kind: str = "sum", **labels: Any) -> otlp.NumberDataPoint:
        named = {
            attribute.name: labels[attribute.label] for attribute in metrics.ATTRIBUTES if attribute.label in labels
        }
        point = self._stamp(self._data(name, kind, "").data_points.add(), named)
        point.as_double = value
        return point  # type: ignore[no-any-return]


def request_spans(node: str, spans: Sequence[dict[str, Any]], pool: str = "chat") -> ExportTraceServiceRequest:
    """Request spans; each dict: id, arrival (datetime), and optionally prompt, output, cached, hashes, parts, batch,
    tenant, region, revision, model, finish_reason, name."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend([attribute(metrics.NODE.name, node), attribute(metrics.POOL.name, pool)])
    scope = resource.scope_spans.add()
    for one in spans:
        parts = one.get("parts", {"e2e": 1.5, "ttft": 0.25})
        arrival_ns = int(one["arrival"].timestamp() * 1e6) * 1000
        span = scope.spans.add(name=one.get("name", metrics.SPAN_REQUEST), start_time_unix_nano=arrival_ns)
        span.end_time_unix_nano = arrival_ns + int(parts.get("e2e", 1.0) * 1e9)
        given: dict[str, Any] = {
            metrics.SPAN_REQUEST_ID: one["id"],
            metrics.MODEL.name: one.get("model", "tiny"),
            metrics.REVISION.name: one.get("revision", "3"),
            metrics.SPAN_INPUT_TOKENS: one.get("prompt", 100),
            metrics.SPAN_OUTPUT_TOKENS: one.get("output", 20),
            metrics.SPAN_CACHED_TOKENS: one.get("cached", 0),
            metrics.SPAN_BLOCK_SIZE: one.get("block_size", 16),
            metrics.SPAN_BLOCK_HASHES: one.get("hashes", [1, 2, 3]),
            metrics.SPAN_FINISH_REASON: one.get("finish_reason", "stop"),
            **{
                name: one[label]
                for name, label in metrics.LABEL_OF.items()
                if label in ("tenant", "region") and label in one
            },
            **{metrics.SPAN_BATCH_PREFIX + name: value for name, value in one.get("batch", {}).items()},
            **{metrics.SPAN_PART_PREFIX + name: value for name, value in parts.items()},
        }
        span.attributes.extend(attribute(name, value) for name, value in given.items())
    return request


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def make_report() -> type[Report]:
    return Report


@pytest.fixture
def make_spans() -> Callable[..., ExportTraceServiceRequest]:
    return request_spans


@pytest.fixture
def start() -> datetime:
    """Beginning of the event time that reports are about; the clock stands ten minutes later."""
    return START


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path / 'tailwright.db'}")
    create_tables(found)
    yield found
    found.close()


@pytest.fixture
def store(database: Database, clock: TestClock) -> Iterator[TelemetryStore]:
    found = TelemetryStore(database, clock)
    found.start()
    yield found
    found.close()


@pytest.fixture
def stop() -> threading.Event:
    """Set once the service is told to end."""
    return threading.Event()


@pytest.fixture
def app(database: Database, store: TelemetryStore, clock: TestClock, stop: threading.Event) -> FastAPI:
    """The domain's routes, and the contract's errors on the wire."""
    service = TelemetryParts(
        database=database,
        clock=clock,
        tokens=TokenCache(database),
        keyring=keyring_of(database),
        telemetry=store,
        streams=Streams(store.latest, clock, stop),
    )
    app = Application(service, error_handlers.error_response)
    app.include_router(router, dependencies=[Depends(refuse_unknown_fields)])
    error_handlers.install(app)
    return app


@pytest.fixture
def api(app: FastAPI, database: Database) -> Iterator[httpx.Client]:
    """A client with an admin's token, which implies every scope."""
    with database.session() as session:
        _, token = tokens.issue(session, name="root", scope=Scope.ADMIN, now=START)
    with TestClient(app, headers={"Authorization": f"Bearer {token}"}, raise_server_exceptions=True) as client:
        yield client


@pytest.fixture
def node_token(database: Database) -> Callable[[str], str]:
    """Makes a token bound to a node."""

    def make(node: str) -> str:
        with database.session() as session:
            return tokens.issue(session, name=f"agent {node}", scope=Scope.AGENT, now=START, node=node)[1]

    return make


@pytest.fixture(scope="session")
def embedded_clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    made = EmbeddedClickHouse(tmp_path_factory.mktemp("clickhouse"), "frames")
    yield made
    made.close()


@pytest.fixture
def empty_clickhouse(embedded_clickhouse: EmbeddedClickHouse) -> EmbeddedClickHouse:
    """ClickHouse's own engine in this process, without frames."""
    embedded_clickhouse.execute(f"DROP TABLE IF EXISTS {clickhouse_frames.TABLE} SYNC")
    return embedded_clickhouse
