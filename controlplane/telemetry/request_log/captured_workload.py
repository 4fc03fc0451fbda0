"""What a pool served in a span, as a workload for replay."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, func, select
from sqlmodel import col

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.telemetry.question import Cost
from controlplane.telemetry.reports.records import unpack_hashes
from controlplane.telemetry.tables import RequestRow
from controlplane.telemetry.values.timespan import to_ns

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
