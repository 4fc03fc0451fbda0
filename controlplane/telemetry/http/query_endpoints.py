"""Quantiles, rates, shares, heat maps, exemplars and workloads out, and the service's own `/metrics`.

Every answer is of one snapshot, absent data is absent, and what is left out for its size is said (`budget`). Queries
are computed and written as JSON in one worker thread; the models say what they are. FastAPI would hand a synchronous
endpoint and the check of its answer to a thread each, and every hand-over waits for the interpreter's lock while
reports come in.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from controlplane.auth import Principal, Reader
from controlplane.contract.bearer import bearer_token
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.telemetry import (
    Exemplar,
    HeatmapAnswer,
    NodeFigures,
    QuantilesAnswer,
    RatesAnswer,
    ScalarPoint,
    ScalarsAnswer,
    ScalarSeries,
    SharesAnswer,
)
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import BadRequest, Overloaded, TooLarge, Unauthenticated
from controlplane.contract.metrics import E2E, REQUESTS, TTFT, MetricKind
from controlplane.db.request_parts import Basis, address_of
from controlplane.telemetry.http import compare_endpoints, explain_endpoints, request_endpoints, stream_endpoints
from controlplane.telemetry.http.telemetry_parts import Telemetry
from controlplane.telemetry.journal import exemplar_store
from controlplane.telemetry.queries.budget import QueryDesk, bounded, kept, left_out
from controlplane.telemetry.queries.heatmap import FEWEST_ROWS, MOST_ROWS
from controlplane.telemetry.queries.heatmap import heatmap as of_heatmap
from controlplane.telemetry.queries.node_figures import node_figures as of_nodes
from controlplane.telemetry.queries.parameters import (
    AboveSeconds,
    NodeName,
    PoolName,
    Quantiles,
    SpanOf,
    Text,
    asks,
    label_filters,
    quantiles_of,
)
from controlplane.telemetry.queries.quantiles import quantiles as of_quantiles
from controlplane.telemetry.queries.rates import rates as of_rates
from controlplane.telemetry.queries.shares import limit_of
from controlplane.telemetry.queries.shares import shares as of_shares
from controlplane.telemetry.question import Question
from controlplane.telemetry.reader import ValueSeries
from controlplane.telemetry.reports import exemplar
from controlplane.telemetry.store import TelemetryStore

router = APIRouter()
router.include_router(stream_endpoints.router)
router.include_router(request_endpoints.router)
router.include_router(explain_endpoints.router)
router.include_router(compare_endpoints.router)


async def _store(service: Telemetry) -> TelemetryStore:
    return service.telemetry


Store = Annotated[TelemetryStore, Depends(_store)]


@dataclass(frozen=True)
class _Asking:
    """Who asks, and at which desk: `answered` is the answer within its limits."""

    principal: Principal
    desk: QueryDesk

    async def answered(self, asked: Question, compute: Callable[[Question], bytes]) -> Response:
        """`compute` gives the JSON of a question, in a worker thread; what it raises is the request's error."""
        return Response(await to_thread.run_sync(self._within, asked, compute), media_type="application/json")

    def _within(self, asked: Question, compute: Callable[[Question], bytes]) -> bytes:
        with self.desk.query(self.principal.holder) as budget:
            return budget.written(compute(bounded(asked, self.desk.limits.series, budget)))


async def _asking(principal: Reader, service: Telemetry) -> _Asking:
    return _Asking(principal, service.desk)


Asking = Annotated[_Asking, Depends(_asking)]
_TOO_MUCH = answers(TooLarge, Overloaded)


@router.get("/api/v1/quantiles", response_model=QuantilesAnswer, responses=_TOO_MUCH)
async def quantiles(
    asking: Asking, asked: Annotated[Question, Depends(asks())], store: Store, q: Quantiles = "0.5,0.95,0.99"
) -> Response:
    """Quantiles of a histogram metric, by event time; `q` comma separated. No data: an empty series list."""
    wanted = quantiles_of(q)
    return await asking.answered(asked, lambda at: of_quantiles(store, store.find(at.metric), at, wanted))


@router.get("/api/v1/rates", response_model=RatesAnswer, responses=_TOO_MUCH)
async def rates(asking: Asking, asked: Annotated[Question, Depends(asks())], store: Store) -> Response:
    """What a sum, or the count of a histogram, grew by in a second; of whole windows that have data."""
    return await asking.answered(asked, lambda at: _as_json(of_rates(store, store.find(at.metric), at)))


@router.get("/api/v1/shares", response_model=SharesAnswer, responses=_TOO_MUCH)
async def shares(
    asking: Asking,
    asked: Annotated[Question, Depends(asks(metric_by_default=E2E.short))],
    store: Store,
    above: AboveSeconds = None,
) -> Response:
    """Each component's share of e2e. With `above`, also the share of `metric`'s values (e2e) above so many seconds."""
    return await asking.answered(asked, lambda at: _as_json(of_shares(store, at, limit_of(store, at, above))))


@router.get("/api/v1/heatmap", response_model=HeatmapAnswer, responses=_TOO_MUCH)
async def heatmap(
    asking: Asking,
    asked: Annotated[Question, Depends(asks())],
    store: Store,
    rows: Annotated[int, Query(ge=FEWEST_ROWS, le=MOST_ROWS, description="the finest resolution within so many")] = 64,
) -> Response:
    """How many values lie in each row of the axis at each step; `step` is needed."""
    return await asking.answered(asked, lambda at: _as_json(of_heatmap(store, store.find(at.metric), at, rows)))


@router.get("/api/v1/exemplars")
def exemplars(
    _: Reader,
    service: Basis,
    span: SpanOf,
    metric: Annotated[Text, Query(description="ttft, e2e or tpot")] = TTFT.short,
    pool: PoolName = None,
    node: NodeName = None,
    prompt_bucket: Annotated[Text, Query(description="only of this bucket of prompt lengths")] = None,
    above: AboveSeconds = None,
    limit: Annotated[int, Query(ge=1, le=500, description="items per page")] = 50,
    cursor: Annotated[int, Query(ge=0, le=1_000_000, description="`next` of the page before")] = 0,
) -> Page[Exemplar]:
    """The requests behind a quantile: the slowest of each pool, prompt bucket and minute, the slowest first."""
    if metric not in exemplar.METRICS:
        raise BadRequest(
            f"metric: exemplars are kept of {', '.join(exemplar.METRICS)}, not of {str(metric)[:40]!r}", field="metric"
        )
    with service.database.read_session() as session:
        items = exemplar_store.read(
            session.connection(),
            metric,
            span.start,
            span.end,
            pool=pool,
            node=node,
            prompt_bucket=prompt_bucket,
            above=above,
            limit=limit + 1,
            offset=cursor,
        )
    return Page(items=items[:limit], next=str(cursor + limit) if len(items) > limit else None)


@router.get("/api/v1/scalars", response_model=ScalarsAnswer, responses=_TOO_MUCH)
async def scalars(asking: Asking, asked: Annotated[Question, Depends(asks())], store: Store) -> Response:
    """Sums (total, and per second) and gauges (last value), by event time."""
    return await asking.answered(asked, lambda at: _as_json(_scalars(store, at)))


def _scalars(store: TelemetryStore, asked: Question) -> ScalarsAnswer:
    span = asked.span
    metric = store.find(asked.metric)
    kind, every = store.scalars_of_kind(asked)
    found = _with_most_requests(store, asked, every)
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
        metric=metric.short,
        unit=metric.unit,
        kind=kind.value,
        start=span.start,
        end=span.end,
        series=series,
        left_out=left_out(len(every), len(series)),
    )


def _with_most_requests(store: TelemetryStore, asked: Question, found: list[ValueSeries]) -> list[ValueSeries]:
    if asked.most is None or len(found) <= asked.most:
        return found
    finished = store.scalars(replace(asked, metric=REQUESTS.short, step_s=None))
    requests_of = {tuple(one.labels.values()): one.value for one in finished}
    requests = [requests_of.get(tuple(one.labels.values()), 0.0) for one in found]
    return [found[place] for place in kept(requests, asked.most)]


@router.get("/api/v1/node-figures", response_model=NodeFigures, responses=_TOO_MUCH)
async def node_figures(
    asking: Asking, span: SpanOf, where: Annotated[dict[str, list[str]], Depends(label_filters)], store: Store
) -> Response:
    """Every node's p99 time to first token, load and pressure over a span, as columns: for fleets of thousands."""
    return await asking.answered(Question(TTFT.short, span, (), where), lambda at: _as_json(of_nodes(store, at)))


@router.get("/api/v1/workload", responses=_TOO_MUCH)
def workload(principal: Reader, service: Telemetry, span: SpanOf, pool: PoolName = None) -> Workload:
    """What a pool served in a span of time: arrivals, lengths and prefix sharing, no text. Whole, or 413."""
    if not pool:
        raise BadRequest("pool: is missing; say whose workload", field="pool")
    with service.desk.query(principal.holder) as budget:
        return service.telemetry.workload(pool, span.start, span.end, cost=budget)


@router.get("/metrics", include_in_schema=False)
def metrics(store: Store, service: Telemetry, request: Request) -> Response:
    """Prometheus text format, which tells nothing of any request; with `metrics_token_file` for its bearer alone."""
    wanted, given = service.metrics_token, bearer_token(request.headers.get("Authorization", "")) or ""
    if wanted is not None and not hmac.compare_digest(given.encode(), wanted.encode()):
        raise Unauthenticated("/metrics wants the bearer token of metrics_token_file", field="Authorization")
    if wanted is not None:
        service.security_log.let_in_as("metrics_token_file", address_of(request))
    return Response(generate_latest(store.meters.registry), media_type=CONTENT_TYPE_LATEST)


def _as_json(answer: BaseModel) -> bytes:
    return answer.model_dump_json().encode()
