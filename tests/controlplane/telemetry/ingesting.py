"""Reports on the product's one way in, for tests that are no coroutines: on one event loop, in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.telemetry.journal.writer import Body
from controlplane.telemetry.meters import METRICS
from controlplane.telemetry.otlp.bounds import ANYONE
from controlplane.telemetry.otlp.otlp_bodies import PROTOBUF
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.values.refusal import Outcome

LIMIT_S = 60.0
T = TypeVar("T")


def ingest_metrics(store: TelemetryStore, request: ExportMetricsServiceRequest) -> Outcome:
    """Returns once the points are on the disk."""
    return started(store.intake.metrics(request.SerializeToString(), "", PROTOBUF, ANYONE, None)).result(LIMIT_S)


def ingest_traces(store: TelemetryStore, request: ExportTraceServiceRequest) -> Outcome:
    return started(store.intake.traces(request.SerializeToString(), "", PROTOBUF, ANYONE)).result(LIMIT_S)


def ingest_packed(store: TelemetryStore, body: bytes) -> Outcome:
    return started(written(store, body)).result(LIMIT_S)


def written(store: TelemetryStore, body: bytes) -> Coroutine[Any, Any, Outcome]:
    """A packed report, as the receiver hands it on."""
    return store.writer.written(METRICS, Body(body, "", store.bounds(ANYONE, identified=True)))


def started(coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
    """Its result; it runs already."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


def submitted(put: "Callable[[], asyncio.Future[Entry]]") -> "Future[Entry]":
    """What `put` has handed to a writer; raises what it raises."""

    async def on_the_loop() -> "asyncio.Future[Entry]":
        return put()

    async def wait() -> Entry:
        return await waiter

    waiter = started(on_the_loop()).result(LIMIT_S)
    return started(wait())


def settled() -> None:
    """Returns when the loop has done everything that it was handed so far, and what came of that."""
    for _ in range(5):
        started(asyncio.sleep(0)).result(LIMIT_S)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ingesting", daemon=True).start()
    return loop
