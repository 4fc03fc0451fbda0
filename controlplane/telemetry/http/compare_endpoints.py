"""Two of anything side by side: spans, revisions, nodes, tenants."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from controlplane.auth import Reader
from controlplane.contract.bodies.explanation import CompareAnswer
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import BadRequest, Overloaded
from controlplane.contract.metrics import ROLE, TTFT
from controlplane.telemetry.http.telemetry_parts import Telemetry
from controlplane.telemetry.queries.compared_quantiles import ComparedWith, compared
from controlplane.telemetry.queries.parameters import (
    End,
    Filter,
    Quantiles,
    Role,
    SpanOf,
    Start,
    quantiles_of,
    role_label,
)
from controlplane.telemetry.values.timespan import Span, parse_time

router = APIRouter()

Level = Annotated[float, Query(ge=0.5, le=0.9999, description="the intervals' level")]


async def own_labels(
    pool: Filter = None,
    node: Filter = None,
    revision: Filter = None,
    model: Filter = None,
    tenant: Filter = None,
    region: Filter = None,
    prompt_bucket: Filter = None,
    cache_class: Filter = None,
    role: Role = None,
) -> dict[str, list[str]]:
    """Of side a; b takes over those that it does not name."""
    given = dict(locals()) | {ROLE.label: role_label(role)}
    return {label: values for label, values in given.items() if values is not None}


async def other_labels(
    b_pool: Filter = None,
    b_node: Filter = None,
    b_revision: Filter = None,
    b_model: Filter = None,
    b_tenant: Filter = None,
    b_region: Filter = None,
    b_prompt_bucket: Filter = None,
    b_cache_class: Filter = None,
    b_role: Role = None,
) -> dict[str, list[str]]:
    """What side b has of its own."""
    given = dict(locals()) | {f"b_{ROLE.label}": role_label(b_role)}
    return {label.removeprefix("b_"): values for label, values in given.items() if values is not None}


async def other_span(span: SpanOf, b_start: Start = None, b_end: End = None) -> Span:
    """Side b's: as long as a's unless both of its ends are given; a's own without them."""
    first, last = _moment(b_start, "b_start"), _moment(b_end, "b_end")
    length = span.end - span.start
    if first is None and last is None:
        return span
    found = Span(first or (last or span.end) - length, last or (first or span.start) + length)
    if found.start >= found.end:
        raise BadRequest("b_end: is not after b_start; give a later one", field="b_end")
    return found


def _moment(text: str | None, field: str) -> datetime | None:
    return None if text is None else parse_time(text, field)


@router.get("/api/v1/compare", responses=answers(Overloaded))
def compare(
    principal: Reader,
    service: Telemetry,
    span: SpanOf,
    where: Annotated[dict[str, list[str]], Depends(own_labels)],
    b_span: Annotated[Span, Depends(other_span)],
    b_where: Annotated[dict[str, list[str]], Depends(other_labels)],
    metric: Annotated[str, Query(description="short name of a histogram, e.g. ttft")] = TTFT.short,
    q: Quantiles = "0.5,0.95,0.99",
    level: Level = 0.95,
) -> CompareAnswer:
    """Quantiles of two sides of a metric and of each part of e2e, with intervals, difference and ratio.

    Side b is side a but for what the parameters with b_ say.
    """
    wanted = quantiles_of(q)
    if not all(0.0 < one < 1.0 for one in wanted.values()):
        raise BadRequest(
            "q: the smallest and the largest value have no interval; give numbers between 0 and 1", field="q"
        )
    a, b = ComparedWith(span, where), ComparedWith(b_span, {**where, **b_where})
    if a == b:
        raise BadRequest("b_start: both sides are the same; give b_start, or a label as b_revision", field="b_start")
    store = service.telemetry
    with service.desk.query(principal.holder) as budget:
        return compared(store, store.find(metric), a, b, wanted, level, budget)
