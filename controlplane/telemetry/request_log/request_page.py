"""Finished requests in order, each with its whole waterfall, and those of one id."""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Row, ScalarSelect, Select, func, select
from sqlmodel import col

from controlplane.contract.bodies.workload import RequestRecord
from controlplane.telemetry.request_log.request_filter import (
    RequestFilter,
    arrived_in,
    completed_in,
    in_range,
    seconds_of,
    with_labels,
)
from controlplane.telemetry.tables import RequestRow
from controlplane.telemetry.values.timespan import Span, at_ns

_TOLD = (
    *("node", "pool", "model", "revision", "request_id", "prompt_tokens", "cached_tokens", "output_tokens"),
    *("finish_reason", "tenant", "region", "trace_id"),
)
"""What a record tells as the row has it."""
_COLUMNS = [col(getattr(RequestRow, name)) for name in (*_TOLD, "arrival_ns", "parts", "batch")]


def records(
    connection: Connection,
    span: Span,
    wanted: RequestFilter,
    *,
    slowest: bool,
    limit: int,
    offset: int = 0,
    by_completion: bool = False,
    request_id: str | None = None,
) -> list[RequestRecord]:
    """Requests that arrived in the span (by_completion: whose value of the filter's metric was complete in it).

    The newest first, or the slowest: by the filter's metric, those first that have it.
    """
    dialect = connection.dialect.name
    when = (
        completed_in(wanted.metric, span, wanted.high, dialect) if by_completion else arrived_in(span.start, span.end)
    )
    query = select(*_COLUMNS).where(when, *in_range(wanted, dialect), *with_labels(wanted))
    if request_id is not None:
        query = query.where(*_with_id(request_id, some_nodes="node" in wanted.labels))
    number = col(RequestRow.id)
    if slowest:
        query = query.order_by(seconds_of(wanted.metric, dialect).desc().nulls_last(), number)
    else:
        query = query.order_by(col(RequestRow.arrival_ns).desc(), number.desc())
    return [_record(row) for row in connection.execute(query.limit(limit).offset(offset))]


def named(connection: Connection, request_id: str, limit: int) -> list[RequestRecord]:
    """The requests of exactly this id that the log has, whenever they arrived, the newest first."""
    query = select(*_COLUMNS).where(*_with_id(request_id, some_nodes=False))
    query = query.order_by(col(RequestRow.arrival_ns).desc(), col(RequestRow.id).desc()).limit(limit)
    return [_record(row) for row in connection.execute(query)]


def _record(row: Row[Any]) -> RequestRecord:
    told = {name: getattr(row, name) for name in _TOLD}
    return RequestRecord(
        **told, arrival=at_ns(row.arrival_ns), parts=orjson.loads(row.parts), batch=orjson.loads(row.batch)
    )


def _with_id(request_id: str, *, some_nodes: bool) -> Sequence[ColumnElement[bool]]:
    """`some_nodes`: the query names nodes already."""
    own = col(RequestRow.request_id) == request_id
    return (own,) if some_nodes else (own, col(RequestRow.node).in_(_nodes()))


def _nodes() -> Select[tuple[str]]:
    """Every node that has requests, by one step in the index of (node, request id, arrival) for each.

    So an id is looked up in as many steps, and needs no index of its own, which every request would have to pay for.
    """
    least: ScalarSelect[str] = select(func.min(col(RequestRow.node))).scalar_subquery()
    found = select(least.label("node")).cte("nodes", recursive=True)
    following = select(func.min(col(RequestRow.node))).where(col(RequestRow.node) > found.c.node).scalar_subquery()
    found = found.union_all(select(following).where(found.c.node.is_not(None)))
    return select(found.c.node).where(found.c.node.is_not(None))
