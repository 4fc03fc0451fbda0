"""What tells the requests inside a box of a heat map from others."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlalchemy import ColumnElement, Connection, not_, or_
from sqlmodel import col

from controlplane.auth import Reader
from controlplane.contract.bodies.explanation import Against, ExplainAnswer
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import BadRequest, Overloaded
from controlplane.contract.metrics import TTFT
from controlplane.telemetry.http.request_endpoints import Labels, Seconds, TrialNodes, role_of
from controlplane.telemetry.http.telemetry_parts import Telemetry
from controlplane.telemetry.queries.parameters import Role, SpanOf
from controlplane.telemetry.question import Cost
from controlplane.telemetry.reports.exemplar import NOT_COUNTED
from controlplane.telemetry.request_log.explain import Side, explain
from controlplane.telemetry.request_log.node_states import node_states
from controlplane.telemetry.request_log.request_columns import MOST, Coded, RequestColumns, read_columns
from controlplane.telemetry.request_log.request_filter import (
    RequestFilter,
    completed_in,
    in_range,
    seconds_of,
    with_labels,
)
from controlplane.telemetry.tables import RequestRow
from controlplane.telemetry.values.timespan import Span

router = APIRouter()


async def box_of(
    labels: Labels,
    on_trial: TrialNodes,
    metric: Annotated[str, Query(description="what `low` and `high` are of: ttft, tpot, e2e or a part")] = TTFT.short,
    low: Seconds = None,
    high: Seconds = None,
    role: Role = None,
) -> RequestFilter:
    """The box's bounds, and which requests are looked at."""
    if low is None and high is None:
        raise BadRequest("low: a box has a lower or an upper bound; give low, high or both, in seconds", field="low")
    if low is not None and low == high:
        raise BadRequest(f"high: a box from {low:g} s to {high:g} s has no height; give a larger high", field="high")
    return RequestFilter(labels, metric, low, high, role_of(role), on_trial)


Box = Annotated[RequestFilter, Depends(box_of)]


@router.get("/api/v1/explain", responses=answers(Overloaded))
def explain_box(
    principal: Reader,
    service: Telemetry,
    span: SpanOf,
    box: Box,
    against: Annotated[
        Against,
        Query(description="`span`: others of the same time, outside of the bounds; `before`: all of the time before"),
    ] = Against.SPAN,
) -> ExplainAnswer:
    """Which labels and states tell the requests in a box of time and seconds from others, ranked.

    Of the engine at the first token as the request tells it; `step_limit` and `host_state` are its node's meanwhile.

    Corrected for looking at many: a box drawn over nothing names nothing, but for 5 in 100.
    """
    store = service.telemetry
    with service.desk.query(principal.holder) as budget:
        with service.database.snapshot() as connection:
            inside, outside = _sides(connection, span, box, against, budget)

        def states(requests: RequestColumns) -> Mapping[str, Coded]:
            return node_states(store, requests, box.metric, service.clock(), budget)

        return explain(inside, outside, box, against, store.log_from(), states)


def _sides(connection: Connection, span: Span, box: RequestFilter, against: Against, cost: Cost) -> tuple[Side, Side]:
    """What is inside of the box, and what it is compared with."""
    inside = _side(connection, span, box, in_range(box, connection.dialect.name), cost)
    if against is Against.BEFORE:
        return inside, _side(connection, Span(span.start - (span.end - span.start), span.start), box, [], cost)
    beyond = [not_(one) for one in in_range(box, connection.dialect.name)]
    return inside, _side(connection, span, box, [or_(*beyond)], cost)


def _side(
    connection: Connection, span: Span, box: RequestFilter, bounds: list[ColumnElement[bool]], cost: Cost
) -> Side:
    dialect = connection.dialect.name
    conditions = [
        completed_in(box.metric, span, box.high, dialect),
        seconds_of(box.metric, dialect).is_not(None),
        # What was cut off is in no histogram, and so in no heat map.
        col(RequestRow.finish_reason).not_in(sorted(NOT_COUNTED)),
        *with_labels(box),
        *bounds,
    ]
    return Side(read_columns(connection, conditions, cost, with_timings=True, most=MOST // 2), span)
