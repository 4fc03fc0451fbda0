"""The query parameters of the telemetry API, checked. Unknown ones are refused for all routes by `api.unknown_fields`.

The dependencies are coroutines though they wait for nothing: FastAPI hands the others to a thread each.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from fastapi import Depends, Query
from pydantic import WithJsonSchema

from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import BY_SHORT, LABELS, ROLE
from controlplane.db.request_parts import Basis
from controlplane.telemetry.question import Question
from controlplane.telemetry.values import timespan
from controlplane.telemetry.values.timespan import Span

MAX_QUANTILES = 20
_ONE_OF = "|".join(LABELS)
_NUMBER = r"(0(\.[0-9]{1,9})?|1(\.0)?)"

Text = str | None
# What the document says of text that is checked further in: its form, so far as JSON Schema can say it.
_Duration = Annotated[str, WithJsonSchema({"type": "string", "pattern": timespan.DURATION})]
Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
_Labels = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^({_ONE_OF})?(,({_ONE_OF})?)*$"})]
_Numbers = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": f"^{_NUMBER}(,{_NUMBER}){{0,{MAX_QUANTILES - 1}}}$"})
]

Window = Annotated[_Duration | None, Query(description="how far back from end, e.g. 5m (the default)")]
Start = Annotated[Time | None, Query(description="the span's start, RFC 3339")]
End = Annotated[Time | None, Query(description="the span's end, RFC 3339; now when left out")]
Step = Annotated[_Duration | None, Query(description="cut the span into steps, a multiple of 5s")]
By = Annotated[_Labels | None, Query(description="labels to group by, comma separated")]
Top = Annotated[int | None, Query(ge=1, le=100_000, description="at most so many series, those with the most requests")]
Quantiles = Annotated[_Numbers, Query(description="numbers within 0 and 1, comma separated")]
AboveSeconds = Annotated[float | None, Query(description="seconds", gt=0, allow_inf_nan=False)]
PoolName = Annotated[Text, Query(description="only of this pool")]
NodeName = Annotated[Text, Query(description="only of this node")]
Role = Annotated[
    Literal["serving", "trial", "any"] | None,
    Query(description="only what serving nodes served, or what trial nodes replayed; any when left out"),
]
Filter = Annotated[list[str] | None, Query(description="only series with this label value; repeat for any of several")]


async def span_of(service: Basis, window: Window = None, start: Start = None, end: End = None) -> Span:
    """The asked span; it ends now unless said otherwise."""
    return timespan.resolve(service.clock(), window, start, end)


SpanOf = Annotated[Span, Depends(span_of)]


async def label_filters(
    node: Filter = None,
    pool: Filter = None,
    model: Filter = None,
    revision: Filter = None,
    prompt_bucket: Filter = None,
    cache_class: Filter = None,
    tenant: Filter = None,
    region: Filter = None,
    finish_reason: Filter = None,
    limit: Filter = None,
    position: Filter = None,
    role: Role = None,
) -> dict[str, list[str]]:
    """The labels that were filtered by. One parameter per label of `metrics.LABELS` (a test compares them)."""
    given = dict(locals()) | {ROLE.label: role_label(role)}
    return {label: given[label] for label in LABELS if given[label] is not None}


def role_label(role: str | None) -> list[str] | None:
    """The values of the label `role`: only trial nodes tell theirs."""
    told = {"serving": [""], "trial": [NodeRole.TRIAL.value], "any": ["", NodeRole.TRIAL.value]}
    return None if role is None else told[role]


def asks(metric_by_default: str | None = None) -> Callable[..., Awaitable[Question]]:
    """The dependency that reads a series query."""

    async def series_query(
        span: SpanOf,
        where: Annotated[dict[str, list[str]], Depends(label_filters)],
        metric: Annotated[Text, Query(description="short name, e.g. ttft")] = metric_by_default,
        step: Step = None,
        by: By = None,
        top: Top = None,
    ) -> Question:
        if not metric:
            raise BadRequest(f"metric: is missing; valid names: {', '.join(BY_SHORT)}", field="metric")
        return Question(metric, span, labels_of(by), where, timespan.parse_step(step, span), top)

    return series_query


def labels_of(by: str | None) -> tuple[str, ...]:
    """ "node,pool" to its labels, each once."""
    return tuple(dict.fromkeys(filter(None, (by or "").split(","))))


def quantiles_of(text: str) -> dict[str, float]:
    """ "0.5,0.99" to {"0.5": 0.5, "0.99": 0.99}: the answer's keys are as asked."""
    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        try:
            value = float(item)
        except ValueError:
            value = -1.0
        if not 0.0 <= value <= 1.0:
            raise BadRequest(f"q: {item[:40]!r} is not a number within 0 and 1", field="q")
        found[item] = value
    if not 0 < len(found) <= MAX_QUANTILES:
        raise BadRequest(f"q: give 1 to {MAX_QUANTILES} numbers, comma separated", field="q")
    return found
