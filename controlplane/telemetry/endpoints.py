"""OTLP in, quantiles and requests out.

POST answers come only when the data is on the disk. GET answers are of one snapshot.
"""

import asyncio
from concurrent.futures import Future
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from controlplane.auth import AgentAccess, Reader
from controlplane.contract.errors import BadRequest, Forbidden, TooLarge, Unavailable
from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.contract.metrics import NODE, MetricKind
from controlplane.contract.pages import Page
from controlplane.contract.telemetry import (
    QuantilePoint,
    QuantilesAnswer,
    QuantileSeries,
    ScalarPoint,
    ScalarsAnswer,
    ScalarSeries,
)
from controlplane.contract.workload import RequestRecord, Workload
from controlplane.telemetry import otlp
from controlplane.telemetry.parameters import (
    SeriesQuery,
    SpanOf,
    Text,
    quantiles_of,
    refuse_unknown,
    series_query,
)
from controlplane.telemetry.refusal import Outcome, Reason, Refusals
from controlplane.telemetry.store import COMMIT_TIMEOUT_S, TelemetryStore

router = APIRouter(tags=["telemetry"])
Asked = Annotated[SeriesQuery, Depends(series_query)]


def _store(request: Request) -> TelemetryStore:
    store: TelemetryStore = request.app.state.telemetry
    return store


Store = Annotated[TelemetryStore, Depends(_store)]


@router.post("/v1/metrics")
async def export_metrics(request: Request, principal: AgentAccess, store: Store) -> Response:
    """OTLP/HTTP metrics, protobuf or JSON. 200 once they are durable; `partial_success` tells of refused points."""
    body = await _body(request)
    refusals = Refusals()

    def take_in() -> "Future[Outcome]":
        message = otlp.decode(body, request.headers, ExportMetricsServiceRequest(), refusals)
        return store.submit_metrics(message, node=principal.node, refusals=refusals)

    outcome = await _durable(await run_in_threadpool(take_in), "resource_metrics")
    answer = ExportMetricsServiceResponse()
    if outcome.refusals.count or outcome.refusals.warnings:
        answer.partial_success.rejected_data_points = outcome.refusals.count
        answer.partial_success.error_message = outcome.refusals.text()
    return _answer(answer, request)


@router.post("/v1/traces")
async def export_traces(request: Request, principal: AgentAccess, store: Store) -> Response:
    """OTLP/HTTP traces: spans named `llm_request`, one per finished request."""
    body = await _body(request)
    refusals = Refusals()

    def take_in() -> "Future[Outcome]":
        message = otlp.decode(body, request.headers, ExportTraceServiceRequest(), refusals)
        return store.submit_traces(message, node=principal.node, refusals=refusals)

    outcome = await _durable(await run_in_threadpool(take_in), "resource_spans")
    answer = ExportTraceServiceResponse()
    if outcome.refusals.count:
        answer.partial_success.rejected_spans = outcome.refusals.count
        answer.partial_success.error_message = outcome.refusals.text()
    return _answer(answer, request)


@router.get("/api/v1/quantiles")
def quantiles(_: Reader, asked: Asked, store: Store, q: str = "0.5,0.95,0.99") -> QuantilesAnswer:
    """Quantiles of a histogram metric, by event time; `q` comma separated. No data: an empty series list."""
    wanted = quantiles_of(q)
    span = asked.span
    metric = store.find(asked.metric)
    found = store.histograms(asked.metric, span.start, span.end, by=asked.by, where=asked.where, step_s=asked.step_s)
    series = [
        QuantileSeries(
            labels=one.labels,
            count=one.total.count,
            mean=one.total.mean,
            relative_error=one.total.relative_error,
            quantiles={name: one.total.quantile(value) for name, value in wanted.items()},
            points=None
            if asked.step_s is None
            else [
                QuantilePoint(
                    time=time,
                    count=sketch.count,
                    quantiles={name: sketch.quantile(value) for name, value in wanted.items()},
                )
                for time, sketch in one.steps
            ],
        )
        for one in found
    ]
    return QuantilesAnswer(
        metric=metric.short,
        unit=metric.unit,
        start=span.start,
        end=span.end,
        relative_error=max((one.total.relative_error for one in found), default=RELATIVE_ERROR),
        series=series,
    )


@router.get("/api/v1/scalars")
def scalars(_: Reader, asked: Asked, store: Store) -> ScalarsAnswer:
    """Sums (total, and per second) and gauges (last value), by event time."""
    span = asked.span
    metric = store.find(asked.metric)
    kind, found = store.scalars_of_kind(
        asked.metric, span.start, span.end, by=asked.by, where=asked.where, step_s=asked.step_s
    )
    series = [
        ScalarSeries(
            labels=one.labels,
            value=one.value,
            per_second=one.value / span.seconds if kind is MetricKind.SUM else None,
            points=None if asked.step_s is None else [ScalarPoint(time=time, value=value) for time, value in one.steps],
        )
        for one in found
    ]
    return ScalarsAnswer(
        metric=metric.short, unit=metric.unit, kind=kind.value, start=span.start, end=span.end, series=series
    )


@router.get("/api/v1/workload")
def workload(_: Reader, request: Request, span: SpanOf, store: Store, pool: Text = None) -> Workload:
    """What a pool served in a span of time: arrivals, lengths and prefix sharing, no text."""
    refuse_unknown(request, ("pool", "window", "start", "end"))
    if not pool:
        raise BadRequest("pool: is missing; say whose workload", field="pool")
    return store.workload(pool, span.start, span.end)


@router.get("/api/v1/requests")
def requests(
    _: Reader,
    request: Request,
    span: SpanOf,
    store: Store,
    pool: Text = None,
    node: Text = None,
    order: Literal["newest", "slowest"] = "newest",
    limit: Annotated[int, Query(ge=1, le=500, description="items per page")] = 50,
    cursor: Annotated[int, Query(ge=0, le=1_000_000, description="`next` of the page before")] = 0,
) -> Page[RequestRecord]:
    """Finished requests that arrived in the span, each with its whole waterfall."""
    refuse_unknown(request, ("pool", "node", "window", "start", "end", "order", "limit", "cursor"))
    items = store.requests(
        start=span.start, end=span.end, pool=pool, node=node, order=order, limit=limit + 1, offset=cursor
    )
    return Page(items=items[:limit], next=str(cursor + limit) if len(items) > limit else None)


@router.get("/metrics", include_in_schema=False)
def metrics(store: Store) -> Response:
    """Prometheus text format; needs no token, and tells nothing of any request."""
    return Response(generate_latest(store.meters.registry), media_type=CONTENT_TYPE_LATEST)


async def _body(request: Request) -> bytes:
    """The body as sent, at most `otlp.LIMIT_BODY` bytes."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > otlp.LIMIT_BODY:
            raise TooLarge(f"body: over {otlp.LIMIT_BODY} bytes; send smaller reports", field="body")
    return bytes(body)


async def _durable(future: "Future[Outcome]", field: str) -> Outcome:
    """The outcome once it is on the disk. Raises `BadRequest` (`Forbidden`) when nothing at all could be kept."""
    try:
        outcome = await asyncio.wait_for(asyncio.wrap_future(future), COMMIT_TIMEOUT_S)
    except TimeoutError:
        raise Unavailable("the report was not written in time; send it again, it will be recognised") from None
    refusals = outcome.refusals
    if refusals.count and not outcome.accepted and not outcome.repeated:
        # OTLP/HTTP: data that is invalid as a whole, for good, is a 400; partial_success is for the rest.
        if set(refusals.by_reason) == {Reason.NODE}:
            raise Forbidden(refusals.text(), field=NODE.name, rejected=refusals.count)
        reasons = {reason.value: count for reason, count in refusals.by_reason.items()}
        raise BadRequest(refusals.text(), field=field, rejected=refusals.count, reasons=reasons)
    return outcome


def _answer(message: Any, request: Request) -> Response:
    kind = otlp.content_type(request.headers)
    return Response(otlp.encode(message, kind), media_type=kind)
