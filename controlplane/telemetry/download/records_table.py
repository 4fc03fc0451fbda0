"""Request records as a table: one row a finished request, one column a part of its waterfall
(seconds) and a figure of the batch that it ran in.

Guarantee: every request that arrived in the span is there once, newest first, whatever arrives meanwhile.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from controlplane.contract import metrics
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.telemetry.download.table import Column, Kind, Row, Table
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.reports.records import PARTS
from controlplane.telemetry.values.timespan import Span

AT_ONCE = 2000
BATCH = (*metrics.BATCH_FIGURES, *(metrics.BATCH_PEAK + name for name in metrics.BATCH_FIGURES))
COLUMNS = (
    Column("arrival", Kind.TIME),
    *(Column(name, Kind.TEXT) for name in ("node", "pool", "model")),
    Column("revision", Kind.WHOLE),
    Column("request_id", Kind.TEXT),
    *(Column(name, Kind.WHOLE) for name in ("prompt_tokens", "cached_tokens", "output_tokens")),
    Column("finish_reason", Kind.TEXT),
    Column("trace_id", Kind.TEXT),
    *(Column(metric.short, Kind.REAL) for metric in PARTS),
    *(Column(f"batch_{name}", Kind.REAL) for name in BATCH),
)
INSTANT = timedelta(microseconds=1)


def of_requests(
    reader: TelemetryReader, span: Span, *, pool: str | None, node: str | None, at_once: int = AT_ONCE
) -> Table:
    return Table(COLUMNS, _parts(reader, span, pool, node, at_once), {"records": "requests", "unit": "s"})


def _parts(
    reader: TelemetryReader, span: Span, pool: str | None, node: str | None, at_once: int
) -> Iterator[list[Row]]:
    end, limit = span.end, at_once
    while True:
        found = reader.requests(start=span.start, end=end, pool=pool, node=node, order="newest", limit=limit)
        if len(found) < limit:
            yield [_row(one) for one in found]
            return
        # Those of the oldest instant may not be all of it: they are left for the next look, which begins with them.
        oldest = found[-1].arrival
        whole = [one for one in found if one.arrival > oldest]
        if not whole:
            limit *= 2
            continue
        yield [_row(one) for one in whole]
        end, limit = _after(oldest), at_once


def _after(instant: datetime) -> datetime:
    return instant + INSTANT


def _row(one: RequestRecord) -> Row:
    return (
        one.arrival,
        one.node,
        one.pool,
        one.model,
        one.revision,
        one.request_id,
        one.prompt_tokens,
        one.cached_tokens,
        one.output_tokens,
        one.finish_reason,
        one.trace_id,
        *(one.parts.get(metric.short) for metric in PARTS),
        *(one.batch.get(name) for name in BATCH),
    )
