"""`GET /api/v1/stream`: the answer of a query again whenever a new window of data is complete, as server-sent events.

Events: `quantiles`, `rates` or `shares` (as asked), data as the query's own answer, id the end of its span in seconds
since the epoch; `error`, data as an error's body, after which the stream ends. Comments in between keep proxies awake.
"""

import json
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from controlplane.auth import Reader
from controlplane.auth.guard import principal_of
from controlplane.auth.principal import check_scope
from controlplane.contract.bodies.access import Scope
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import BadRequest, Overloaded, TailwrightError, TooLarge
from controlplane.contract.metrics import E2E
from controlplane.telemetry.http.telemetry_parts import Telemetry
from controlplane.telemetry.queries.budget import QueryDesk, bounded
from controlplane.telemetry.queries.feeds import Compute, Failure, Feed, Streams
from controlplane.telemetry.queries.parameters import AboveSeconds, Quantiles, asks, quantiles_of
from controlplane.telemetry.queries.quantiles import quantiles
from controlplane.telemetry.queries.rates import rates
from controlplane.telemetry.queries.shares import limit_of, shares
from controlplane.telemetry.question import Question
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.values.timespan import Span

router = APIRouter()


class Kind(StrEnum):
    """Which query is answered again and again."""

    QUANTILES = "quantiles"
    RATES = "rates"
    SHARES = "shares"


@dataclass(frozen=True)
class Listening:
    """One listener's place."""

    kind: Kind
    streams: Streams
    feed: Feed


async def _listening(
    request: Request,
    service: Telemetry,
    _: Reader,
    asked: Annotated[Question, Depends(asks(metric_by_default=E2E.short))],
    query: Annotated[Kind, Query(description="which query is answered again and again")] = Kind.QUANTILES,
    q: Quantiles = "0.5,0.95,0.99",
    above: AboveSeconds = None,
) -> AsyncIterator[Listening]:
    for name in ("start", "end"):
        if name in request.query_params:
            raise BadRequest(f"{name}: a stream is of the newest data; give window alone", field=name)
    streams = service.streams
    compute = _compute(service.telemetry, service.desk, query, asked, q, above)
    # Everything but the span's place in time: who asks the same shares one computation.
    series = (asked.metric, asked.span.seconds, asked.step_s, asked.by, sorted(asked.where.items()), asked.most)
    key = repr((query, series, q, above))
    with streams.listen(key, compute) as feed:
        await streams.begin(feed)
        yield Listening(query, streams, feed)


@router.get("/api/v1/stream", response_class=EventSourceResponse, responses=answers(TooLarge, Overloaded))
async def stream(
    request: Request,
    service: Telemetry,
    listening: Annotated[Listening, Depends(_listening)],
    last_event_id: Annotated[str, Header(description="resume after this event")] = "",
) -> AsyncIterable[ServerSentEvent]:
    """Server-sent events: the answer of a quantiles, rates or shares query, anew for each complete window of data.

    Who listens is looked at again before each, and every few seconds; an end of the token or session ends the stream.
    """
    after = int(last_event_id) if last_event_id.isascii() and last_event_id.isdecimal() else None
    async for update in listening.streams.follow(listening.feed, after):
        try:
            check_scope(await principal_of(service, request), Scope.READ)
        except TailwrightError as error:
            service.turned_away.note(request, error)
            yield _failed(error)
            return
        if isinstance(update, Failure):
            yield _failed(update.error)
        elif update is not None:
            yield ServerSentEvent(raw_data=update.data, event=listening.kind.value, id=str(update.number))


def _failed(error: TailwrightError) -> ServerSentEvent:
    return ServerSentEvent(raw_data=json.dumps(error.body()), event="error")


def _compute(
    store: TelemetryStore, desk: QueryDesk, kind: Kind, asked: Question, q: str, above: float | None
) -> Compute:
    wanted = quantiles_of(q)

    def answer(at: Question) -> bytes:
        if kind is Kind.QUANTILES:
            return quantiles(store, store.find(at.metric), at, wanted)
        if kind is Kind.RATES:
            return rates(store, store.find(at.metric), at).model_dump_json().encode()
        return shares(store, at, limit_of(store, at, above)).model_dump_json().encode()

    def compute(end: datetime) -> str:
        at = replace(asked, span=Span(end - timedelta(seconds=asked.span.seconds), end))
        with desk.query(None) as budget:
            return budget.written(answer(bounded(at, desk.limits.series, budget))).decode()

    return compute
