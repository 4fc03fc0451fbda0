"""GET /api/v1/export: series, bucket counts or request records as one CSV or Parquet file, streamed.

Guarantee: bounded memory whatever the span. A question that cannot be answered is a 400 before the first byte; a
failure after it breaks the transfer off, so that no reader takes a part for the whole.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from controlplane.auth import Reader
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import BadRequest, Overloaded
from controlplane.contract.metrics import BY_SHORT, LABELS, NODE, POOL, MetricKind
from controlplane.telemetry.download import csv_file, parquet_file, records_table, table
from controlplane.telemetry.download.table import Table
from controlplane.telemetry.http.telemetry_parts import Telemetry
from controlplane.telemetry.queries.budget import QueryDesk
from controlplane.telemetry.queries.parameters import (
    By,
    SpanOf,
    Step,
    Text,
    label_filters,
    labels_of,
    quantiles_of,
)
from controlplane.telemetry.question import Question
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.values import timespan
from controlplane.telemetry.values.timespan import Span

router = APIRouter()

FORMATS = {"csv": csv_file, "parquet": parquet_file}
OF_RECORDS = (POOL.label, NODE.label)
_FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the file",
        "content": {
            encoder.MEDIA_TYPE.partition(";")[0]: {"schema": {"type": "string", "format": "binary"}}
            for encoder in FORMATS.values()
        },
    }
}


class _File(StreamingResponse):
    """A file as it is made, one of the heavy queries of a token until it has gone out or broken off."""

    def __init__(self, desk: QueryDesk, token: str, chunks: Iterator[bytes], **options: Any) -> None:
        super().__init__(chunks, **options)
        self._desk, self._token = desk, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._desk.leave(self._token)


@router.get("/api/v1/export", response_class=StreamingResponse, responses={**_FILES, **answers(Overloaded)})
def export(
    principal: Reader,
    request: Request,
    service: Telemetry,
    span: SpanOf,
    where: Annotated[dict[str, list[str]], Depends(label_filters)],
    format: Annotated[
        Literal["csv", "parquet"], Query(description="of the file; parquet wants the server's extra `parquet`")
    ] = "csv",
    metric: Annotated[Text, Query(description="short name, e.g. ttft")] = None,
    step: Step = None,
    by: By = None,
    q: Annotated[str, Query(description="quantiles, comma separated")] = "0.5,0.95,0.99",
    buckets: Annotated[bool, Query(description="occupied histogram buckets instead of quantiles")] = False,
    requests: Annotated[bool, Query(description="request records instead of a metric's series")] = False,
) -> StreamingResponse:
    """A file of a metric's series by labels and step, of their bucket counts, or of finished requests."""
    if format == "parquet":
        parquet_file.require()
    encoder = FORMATS[format]
    name = "requests" if requests else f"{metric}{'-buckets' if buckets else ''}"
    desk, token = service.desk, principal.holder
    desk.enter(token)
    try:
        if requests:
            found = _records(service.telemetry, request.query_params, span, where)
        else:
            found = _series(service.telemetry, span, where, metric, step, by, q if not buckets else None)
        chunks = _begun(encoder.chunks(_read_ahead(found)))
    except BaseException:
        desk.leave(token)
        raise
    attachment = {"Content-Disposition": f'attachment; filename="{name}.{format}"'}
    return _File(desk, token, chunks, media_type=encoder.MEDIA_TYPE, headers=attachment)


def _series(
    store: TelemetryStore,
    span: Span,
    where: dict[str, list[str]],
    metric: str | None,
    step: str | None,
    by: str | None,
    q: str | None,
) -> Table:
    if not metric:
        raise BadRequest(f"metric: is missing; valid names: {', '.join(BY_SHORT)}; or requests=true", field="metric")
    found = store.find(metric)
    # A file may be long: there is no bound on the number of steps.
    asked = Question(
        metric, span, labels_of(by), where, None if step is None else timespan.parse_duration(step, "step")
    )
    own = found.kind is None and not store.histograms(Question(metric, span))
    if own or found.kind in (MetricKind.SUM, MetricKind.GAUGE):
        return table.of_values(store, asked, found.unit)
    if q is None:
        return table.of_buckets(store, asked, found.unit)
    return table.of_quantiles(store, asked, found.unit, quantiles_of(q))


def _records(store: TelemetryStore, stated: Iterable[str], span: Span, where: dict[str, list[str]]) -> Table:
    given = {name for name in stated if name in (*LABELS, "metric", "step", "by", "q", "buckets")}
    for name in sorted(given - set(OF_RECORDS)):
        raise BadRequest(f"{name}: does not go with requests=true, which takes pool, node and a span", field=name)
    one: dict[str, str | None] = {}
    for label in OF_RECORDS:
        values = where.get(label, [])
        if len(values) > 1:
            raise BadRequest(f"{label}: one value at most with requests=true", field=label)
        one[label] = values[0] if values else None
    return records_table.of_requests(store, span, pool=one[POOL.label], node=one[NODE.label])


def _read_ahead(found: Table) -> Table:
    """The table with its first part read already, so that what is wrong with the question is known."""
    first = next(found.parts, [])
    return Table(found.columns, chain([first], found.parts), found.about)


def _begun(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The chunks, none of them empty."""
    return (chunk for chunk in chunks if chunk)
