"""Keeping and reading exemplars.

Guarantee: after any sequence of `keep`, in whatever order and however often repeated, each place holds its `KEPT`
slowest requests; they are written in the transaction of the requests themselves. Replicas that write to one place at
the same moment may leave a few more there, until it is written to again.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

import orjson
from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col

from controlplane.contract.bodies.telemetry import Exemplar as Answer
from controlplane.telemetry.reports.exemplar import KEPT, MINUTE_NS, Exemplar, Place, ranked, slowest
from controlplane.telemetry.tables import ExemplarRow
from controlplane.telemetry.values.timespan import at_ns, to_ns

RETENTION_S = 14 * 86_400.0
INSERT_CHUNK = 200
DELETE_CHUNK = 5_000


def keep(session: Session, exemplars: Iterable[Exemplar]) -> int:
    """Add those that are among the slowest of their place, and drop whom they displace. Returns the rows added."""
    wanted = slowest(exemplars)
    if not wanted:
        return 0
    present = _present(session, wanted)
    added, displaced = [], []
    for place, candidates in wanted.items():
        there = present.get(place, {})
        known = {one.identity for one in there.values()}
        new = [one for one in candidates if one.identity not in known]
        best = ranked([*there.values(), *new])[:KEPT]
        kept = {one.identity for one in best}
        added += [one for one in new if one.identity in kept]
        displaced += [number for number, one in there.items() if one.identity not in kept]
    for start in range(0, len(displaced), DELETE_CHUNK):
        part = displaced[start : start + DELETE_CHUNK]
        session.execute(delete(ExemplarRow).where(col(ExemplarRow.id).in_(part)))
    make_insert = sqlite_insert if session.get_bind().dialect.name == "sqlite" else postgresql_insert
    for start in range(0, len(added), INSERT_CHUNK):
        rows = [one._asdict() for one in added[start : start + INSERT_CHUNK]]
        session.execute(make_insert(ExemplarRow).values(rows).on_conflict_do_nothing())
    return len(added)


def read(
    connection: Connection,
    metric: str,
    start: datetime,
    end: datetime,
    *,
    pool: str | None = None,
    node: str | None = None,
    prompt_bucket: str | None = None,
    above: float | None = None,
    limit: int = 50,
    offset: int = 0,
) -> list[Answer]:
    """Exemplars whose value was complete in [start, end), the slowest first; `above`: only larger values."""
    table = ExemplarRow
    query = select(*(col(getattr(table, name)) for name in Exemplar._fields)).where(
        col(table.metric) == metric, col(table.time_ns) >= to_ns(start), col(table.time_ns) < to_ns(end)
    )
    for column, wanted in ((table.pool, pool), (table.node, node), (table.prompt_bucket, prompt_bucket)):
        if wanted is not None:
            query = query.where(col(column) == wanted)
    if above is not None:
        query = query.where(col(table.value) > above)
    query = query.order_by(col(table.value).desc(), col(table.id)).limit(limit).offset(offset)
    return [_answer(Exemplar(*row)) for row in connection.execute(query)]


def drop(session: Session, now: datetime) -> int:
    """Delete what is older than `RETENTION_S`. Returns the rows deleted."""
    oldest = to_ns(now - timedelta(seconds=RETENTION_S)) // MINUTE_NS
    return session.connection().execute(delete(ExemplarRow).where(col(ExemplarRow.minute) < oldest)).rowcount


def _present(session: Session, places: Iterable[Place]) -> dict[Place, dict[int, Exemplar]]:
    """What these places (and perhaps others) hold, by row id; waterfalls are not read."""
    wanted = list(places)
    table = ExemplarRow
    query = select(
        col(table.id),
        *(col(getattr(table, name)) for name in Exemplar._fields[: Exemplar._fields.index("arrival_ns")]),
    ).where(
        col(table.minute).in_({place.minute for place in wanted}),
        col(table.pool).in_({place.pool for place in wanted}),
        col(table.metric).in_({place.metric for place in wanted}),
    )
    found: dict[Place, dict[int, Exemplar]] = defaultdict(dict)
    for number, *values in session.execute(query):
        one = Exemplar(*values)
        found[one.place][number] = one
    return found


def _answer(one: Exemplar) -> Answer:
    return Answer(
        metric=one.metric,
        value=one.value,
        time=at_ns(one.time_ns),
        pool=one.pool,
        prompt_bucket=one.prompt_bucket,
        node=one.node,
        model=one.model,
        revision=one.revision,
        trace_id=one.trace_id,
        request_id=one.request_id,
        arrival=None if one.arrival_ns is None else at_ns(one.arrival_ns),
        prompt_tokens=one.prompt_tokens,
        cached_tokens=one.cached_tokens,
        output_tokens=one.output_tokens,
        finish_reason=one.finish_reason,
        parts=orjson.loads(one.parts),
        batch=orjson.loads(one.batch),
    )
