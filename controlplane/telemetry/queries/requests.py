"""Reading request records: workloads for replay, waterfalls, and one request by its id."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime

import orjson
from sqlalchemy import Connection, ScalarSelect, Select, func, select
from sqlmodel import col

from controlplane.contract.bodies.workload import RequestRecord, Workload, WorkloadRequest
from controlplane.telemetry.question import Cost
from controlplane.telemetry.reports.records import unpack_hashes
from controlplane.telemetry.tables import RequestRow
from controlplane.telemetry.values.timespan import at_ns, to_ns

DEFAULT_BLOCK_SIZE = 16


def workload(
    connection: Connection,
    pool: str,
    start: datetime,
    end: datetime,
    not_serving: Collection[str],
    cost: Cost,
) -> Workload:
    """What arrived at a pool in [start, end), less what nodes that do not serve (trial nodes) were sent.

    Prefix hashes of another block size than most requests have would mean something else, and are left out.
    """
    first = to_ns(start)
    arrived = col(RequestRow.arrival_ns)
    there = (col(RequestRow.pool) == pool, arrived >= first, arrived < to_ns(end))
    count = connection.execute(select(func.count()).select_from(RequestRow).where(*there)).scalar_one()
    cost.made(count)
    cost.read(count)
    query = (
        select(
            col(RequestRow.node),
            col(RequestRow.arrival_ns),
            col(RequestRow.prompt_tokens),
            col(RequestRow.output_tokens),
            col(RequestRow.block_size),
            col(RequestRow.hashes),
        )
        .where(*there)
        .order_by(col(RequestRow.arrival_ns), col(RequestRow.id))
    )
    rows = [row for row in connection.execute(query).all() if row.node not in not_serving]
    sizes = Counter(row.block_size for row in rows)
    block_size = sizes.most_common(1)[0][0] if sizes else DEFAULT_BLOCK_SIZE
    return Workload(
        pool=pool,
        start=start,
        end=end,
        nodes=len({row.node for row in rows}),
        block_size=block_size,
        requests=[
            WorkloadRequest(
                timestamp=(row.arrival_ns - first) / 1e6,
                input_length=row.prompt_tokens,
                output_length=row.output_tokens,
                hash_ids=unpack_hashes(row.hashes) if row.block_size == block_size else [],
            )
            for row in rows
        ],
    )


def records(
    connection: Connection,
    start: datetime,
    end: datetime,
    *,
    pool: str | None,
    node: str | None,
    request_id: str | None,
    slowest: bool,
    limit: int,
    offset: int,
) -> list[RequestRecord]:
    """Finished requests that arrived in [start, end), newest or slowest (by e2e) first."""
    arrival, number = col(RequestRow.arrival_ns), col(RequestRow.id)
    query = select(
        col(RequestRow.node),
        col(RequestRow.pool),
        col(RequestRow.model),
        col(RequestRow.revision),
    ).add_columns(
        col(RequestRow.request_id),
        arrival,
        col(RequestRow.prompt_tokens),
        col(RequestRow.cached_tokens),
        col(RequestRow.output_tokens),
        col(RequestRow.finish_reason),
        col(RequestRow.parts),
        col(RequestRow.trace_id),
        col(RequestRow.batch),
    )
    query = query.where(arrival >= to_ns(start), arrival < to_ns(end))
    if pool is not None:
        query = query.where(col(RequestRow.pool) == pool)
    if node is not None:
        query = query.where(col(RequestRow.node) == node)
    if request_id is not None:
        query = query.where(col(RequestRow.request_id) == request_id)
        if node is None:
            query = query.where(col(RequestRow.node).in_(_nodes()))
    query = query.order_by(*((col(RequestRow.e2e_s).desc(), number) if slowest else (arrival.desc(), number.desc())))
    return [
        RequestRecord(
            node=row.node,
            pool=row.pool,
            model=row.model,
            revision=row.revision,
            request_id=row.request_id,
            arrival=at_ns(row.arrival_ns),
            prompt_tokens=row.prompt_tokens,
            cached_tokens=row.cached_tokens,
            output_tokens=row.output_tokens,
            finish_reason=row.finish_reason,
            parts=orjson.loads(row.parts),
            trace_id=row.trace_id,
            batch=orjson.loads(row.batch),
        )
        for row in connection.execute(query.limit(limit).offset(offset))
    ]


def _nodes() -> Select[tuple[str]]:
    """Every node that has requests, by one step in the index of (node, request id, arrival) for each.

    So an id is looked up in as many steps, and needs no index of its own, which every request would have to pay for.
    """
    least: ScalarSelect[str] = select(func.min(col(RequestRow.node))).scalar_subquery()
    found = select(least.label("node")).cte("nodes", recursive=True)
    following = select(func.min(col(RequestRow.node))).where(col(RequestRow.node) > found.c.node).scalar_subquery()
    found = found.union_all(select(following).where(found.c.node.is_not(None)))
    return select(found.c.node).where(found.c.node.is_not(None))
