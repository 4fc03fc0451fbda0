"""Which requests of the log are meant, as a value and as SQL: by labels, and by how long a part of them took.

Guarantee: a label means what it means in the histograms, so a request is let in where its values are counted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ColumnElement, Float, SQLColumnExpression, Text, and_, cast, func, not_, or_
from sqlmodel import col

from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.errors import BadRequest, nearest
from controlplane.contract.metrics import E2E, PROMPT_BUCKET_EDGES, PROMPT_BUCKETS, TTFT, CacheClass
from controlplane.telemetry.reports.records import MAX_TOKENS, PARTS
from controlplane.telemetry.tables import RequestRow
from controlplane.telemetry.values.timespan import Span, to_ns

TIMED = tuple(metric.short for metric in PARTS)
"""What a request was timed by: each is one of its parts, and a metric."""
LONGEST_S = 600.0
"""A request whose value was complete in a span is looked for among those that arrived at most so long before it (up to
`DAY_S`, where longer ones are asked for)."""
DAY_S = 86_400.0

_COLUMNS: dict[str, SQLColumnExpression[str]] = {
    label: col(getattr(RequestRow, label)) for label in ("pool", "node", "model", "tenant", "region", "finish_reason")
}
_OF_BUCKETS: dict[str, list[str]] = {
    "prompt_bucket": list(PROMPT_BUCKETS),
    "cache_class": [str(one) for one in CacheClass],
}
FACETS = ("pool", "node", "revision", "model", "tenant", "region", "prompt_bucket", "cache_class", "finish_reason")
"""The labels of a request, in the order in which people ask for them."""


@dataclass(frozen=True)
class RequestFilter:
    """labels: label of `FACETS` to its values, any of which will do; metric: one of `TIMED`; low and high: its bounds
    in seconds, both included, None for none; role: only of serving or of trial nodes, those that are `trial_nodes`.
    Raises `BadRequest` for what no request can be."""

    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    metric: str = E2E.short
    low: float | None = None
    high: float | None = None
    role: NodeRole | None = None
    trial_nodes: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.metric not in TIMED:
            hint = nearest(self.metric[:40], list(TIMED))
            raise BadRequest(f"metric: no request is timed by {self.metric[:40]!r}; {hint}", field="metric")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise BadRequest(f"low: {self.low:g} s is above high, {self.high:g} s", field="low")
        for label, values in self.labels.items():
            for value in values:
                _check(label, value)


ANY = RequestFilter()


def arrived_in(start: datetime, end: datetime) -> ColumnElement[bool]:
    """Requests that arrived in [start, end)."""
    arrival = col(RequestRow.arrival_ns)
    return and_(arrival >= to_ns(start), arrival < to_ns(end))


def completed_in(metric: str, span: Span, high: float | None, dialect: str) -> ColumnElement[bool]:
    """Requests whose value of the metric was complete in the span, as the histograms place it: a time to first token
    when that token came, all else at the request's end. Those that took over `LONGEST_S` (or `high`) are left out."""
    after_s = seconds_of(TTFT.short if metric == TTFT.short else E2E.short, dialect)
    start, end = to_ns(span.start), to_ns(span.end)
    arrival = col(RequestRow.arrival_ns)
    back_ns = int(min(max(high or 0.0, LONGEST_S), DAY_S) * 1e9)
    return and_(
        arrival >= start - back_ns,
        arrival < end,
        # Integers first: a float does not tell nanoseconds since the epoch apart.
        after_s >= (start - arrival) / 1e9,
        after_s < (end - arrival) / 1e9,
    )


def seconds_of(metric: str, dialect: str) -> SQLColumnExpression[float | None]:
    """How long this part of a request took; NULL where nobody told."""
    if metric == E2E.short:
        return col(RequestRow.e2e_s)
    if metric == TTFT.short:
        return col(RequestRow.ttft_s)
    parts: Any = col(RequestRow.parts)
    if dialect == "sqlite":
        return cast(func.json_extract(cast(parts, Text), f"$.{metric}"), Float)
    return cast(func.json_extract_path_text(cast(func.convert_from(parts, "UTF8"), JSON), metric), Float)


def in_range(wanted: RequestFilter, dialect: str) -> list[ColumnElement[bool]]:
    """The conditions of the filter's bounds; none where it has none."""
    seconds = seconds_of(wanted.metric, dialect)
    found = [] if wanted.low is None else [seconds >= wanted.low]
    return found if wanted.high is None else [*found, seconds <= wanted.high]


def of_role(wanted: RequestFilter) -> list[ColumnElement[bool]]:
    """The condition of the filter's role; none where it has none."""
    if wanted.role is None:
        return []
    on_trial = col(RequestRow.node).in_(sorted(wanted.trial_nodes))
    return [on_trial if wanted.role is NodeRole.TRIAL else not_(on_trial)]


def with_labels(wanted: RequestFilter) -> list[ColumnElement[bool]]:
    """The conditions of the filter's labels, and of its role."""
    return of_role(wanted) + [or_(*(_is(label, value) for value in values)) for label, values in wanted.labels.items()]


def _is(label: str, value: str) -> ColumnElement[bool]:
    if label == "revision":
        return col(RequestRow.revision) == int(value)
    if label == "prompt_bucket":
        return _in_bucket(value)
    if label == "cache_class":
        return _of_class(value)
    return _COLUMNS[label] == value


def _in_bucket(value: str) -> ColumnElement[bool]:
    tokens = col(RequestRow.prompt_tokens)
    place = PROMPT_BUCKETS.index(value)
    above = PROMPT_BUCKET_EDGES[place - 1][0] if place else 0
    upto = PROMPT_BUCKET_EDGES[place][0] if place < len(PROMPT_BUCKET_EDGES) else MAX_TOKENS
    return and_(tokens > above, tokens <= upto)


def _of_class(value: str) -> ColumnElement[bool]:
    cached, prompt = col(RequestRow.cached_tokens), col(RequestRow.prompt_tokens)
    if value == CacheClass.MISS:
        return cached <= 0
    return and_(cached > 0, 2 * cached >= prompt if value == CacheClass.HIT else 2 * cached < prompt)


def _check(label: str, value: str) -> None:
    if label == "revision" and not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise BadRequest(f"revision: {value[:40]!r} is not a revision's number", field="revision")
    known = _OF_BUCKETS.get(label)
    if known is not None and value not in known:
        raise BadRequest(f"{label}: there is no {value[:40]!r}; {nearest(value[:40], known)}", field=label)
