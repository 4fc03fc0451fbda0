"""The log of finished requests: pages of it, counts by label to filter by, and one request with its neighbours."""

from collections.abc import Collection
from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Query
from pydantic import WithJsonSchema

from controlplane.auth import Reader
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.request_log import RequestDetail, RequestFacets
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import NotFound, Overloaded
from controlplane.contract.metrics import E2E, cache_class, prompt_bucket
from controlplane.telemetry.http.telemetry_parts import Telemetry
from controlplane.telemetry.queries.parameters import Filter, Role, SpanOf, Text
from controlplane.telemetry.request_log.facet_counts import facets
from controlplane.telemetry.request_log.one_request import find_peers, find_request
from controlplane.telemetry.request_log.request_columns import read_columns
from controlplane.telemetry.request_log.request_filter import (
    FACETS,
    RequestFilter,
    arrived_in,
    completed_in,
    in_range,
    of_role,
)
from controlplane.telemetry.request_log.request_page import records
from controlplane.telemetry.request_log.typical_parts import typical_parts
from controlplane.telemetry.values.timespan import parse_time

router = APIRouter()

Seconds = Annotated[float | None, Query(ge=0, allow_inf_nan=False, description="seconds of `metric`, included")]
TimedBy = Annotated[
    Literal["arrival", "completion"],
    Query(
        description="which requests are of the span: those that arrived in it, or those whose value of `metric` was "
        "complete in it, as a heat map counts them"
    ),
]


async def request_labels(
    pool: Filter = None,
    node: Filter = None,
    revision: Filter = None,
    model: Filter = None,
    tenant: Filter = None,
    region: Filter = None,
    prompt_bucket: Filter = None,
    cache_class: Filter = None,
    finish_reason: Filter = None,
) -> dict[str, list[str]]:
    """The labels of requests that were filtered by. One parameter for each of `FACETS` (a test compares them)."""
    given = dict(locals())
    return {label: given[label] for label in FACETS if given[label] is not None}


Arrival = Annotated[
    str | None,
    Query(description="of several with this id: the one that arrived then, RFC 3339"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Labels = Annotated[dict[str, list[str]], Depends(request_labels)]


async def trial_nodes(service: Telemetry, role: Role = None) -> Collection[str]:
    """Asked for only where a role is."""
    return () if role is None else await to_thread.run_sync(service.telemetry.trial_nodes)


TrialNodes = Annotated[Collection[str], Depends(trial_nodes)]


def role_of(role: str | None) -> NodeRole | None:
    return None if role in (None, "any") else NodeRole(role)


async def request_filter(
    labels: Labels,
    on_trial: TrialNodes,
    metric: Annotated[str, Query(description="what `low` and `high` are of: e2e, ttft, tpot or a part")] = E2E.short,
    low: Seconds = None,
    high: Seconds = None,
    role: Role = None,
) -> RequestFilter:
    """Which requests are meant."""
    return RequestFilter(labels, metric, low, high, role_of(role), on_trial)


Wanted = Annotated[RequestFilter, Depends(request_filter)]


@router.get("/api/v1/requests")
def requests(
    _: Reader,
    service: Telemetry,
    span: SpanOf,
    wanted: Wanted,
    request_id: Annotated[Text, Query(description="exactly this id")] = None,
    timed_by: TimedBy = "arrival",
    order: Annotated[
        Literal["newest", "slowest"], Query(description="which come first; slowest: by `metric`")
    ] = "newest",
    limit: Annotated[int, Query(ge=1, le=500, description="items per page")] = 50,
    cursor: Annotated[int, Query(ge=0, le=1_000_000, description="`next` of the page before")] = 0,
) -> Page[RequestRecord]:
    """Finished requests of the span, each with its whole waterfall."""
    with service.database.snapshot() as connection:
        items = records(
            connection,
            span,
            wanted,
            slowest=order == "slowest",
            limit=limit + 1,
            offset=cursor,
            by_completion=timed_by == "completion",
            request_id=request_id,
        )
    return Page(items=items[:limit], next=str(cursor + limit) if len(items) > limit else None)


@router.get("/api/v1/request-facets", responses=answers(Overloaded))
def request_facets(
    principal: Reader, service: Telemetry, span: SpanOf, wanted: Wanted, timed_by: TimedBy = "arrival"
) -> RequestFacets:
    """How many requests each value of each label has. Each label's counts are under all filters but its own."""
    with service.desk.query(principal.holder) as budget, service.database.snapshot() as connection:
        dialect = connection.dialect.name
        when = (
            completed_in(wanted.metric, span, wanted.high, dialect)
            if timed_by == "completion"
            else arrived_in(span.start, span.end)
        )
        found = read_columns(connection, [when, *in_range(wanted, dialect), *of_role(wanted)], budget)
    return facets(found, span, wanted)


@router.get("/api/v1/requests/{request_id:path}", responses=answers(NotFound, Overloaded))
def request(
    principal: Reader,
    service: Telemetry,
    request_id: Annotated[str, Path(description="the request's id, escaped as a part of a path")],
    node: Annotated[Text, Query(description="of several with this id: the one of this node")] = None,
    arrival: Arrival = None,
) -> RequestDetail:
    """One request, who shared the engine with it, and what is usual. 404 when neither log nor exemplars have it."""
    arrived = None if arrival is None else parse_time(arrival, "arrival")
    store = service.telemetry
    with service.desk.query(principal.holder) as budget:
        with service.database.snapshot() as connection:
            found = find_request(connection, request_id, node, arrived)
            peers = find_peers(connection, found.request, store.log_from(), budget)
        one = found.request
        bucket = prompt_bucket(one.prompt_tokens)
        typical = typical_parts(store, one.pool, bucket, one.arrival, budget)
    return RequestDetail(
        request=one,
        source=found.source,
        prompt_bucket=bucket,
        cache_class=cache_class(one.cached_tokens, one.prompt_tokens),
        others=found.others,
        peers=peers.shown,
        peers_found=peers.found,
        peers_all=peers.whole,
        typical=typical,
    )
