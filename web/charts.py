"""What the charts show: quantiles over time, with what happened meanwhile, asked of the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.telemetry import QuantilesAnswer
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import error_text
from controlplane.contract.metrics import BY_SHORT, REQUEST_PARTS, UNACCOUNTED, MetricKind
from web.drawing.line_chart import Line, Mark, drawn, stacked
from web.fragments import Params
from web.spans import STEP_OF, STEP_S, span_of, zoom_of

QUANTILES = (0.5, 0.95, 0.99)
MOST_LINES = 50
MARKS = {
    "rollout": "rollout",
    "alert.fired": "alert",
    "alert.resolved": "resolved",
    "revision.created": "revision",
    "revision.adopted": "revision",
}
"""Kinds of the ledger's entries, or what they begin with, and how a mark of theirs is drawn."""
MARKS_LOOKED_AT = 100
"""The ledger's newest entries among which marks are looked for."""


def latency(client: Client, params: Params) -> dict[str, Any]:
    """The context of components/line_chart.html: a line for each quantile, or with ?by=node one for each node at p99.

    Of the span that ends now, or of ?from= to ?to=. Steps without data are left out of a line, which then has a gap.
    """
    metric, span, zoom = params.get("metric", ""), span_of(params), zoom_of(params)
    if metric not in BY_SHORT or BY_SHORT[metric].kind is not MetricKind.HISTOGRAM:
        raise BadRequest(f"metric: {metric!r} is not a latency metric", field="metric")
    span = zoom.span if zoom else span
    when: dict[str, Any] = {"start": zoom.start, "end": zoom.end} if zoom else {"window": span}
    by = [params["by"]] if params.get("by") else []
    answer = client.quantiles(
        metric, QUANTILES, step=STEP_OF[span], by=by, top=MOST_LINES, pool=params.get("pool") or None, **when
    )
    start, end = (zoom.start, zoom.end) if zoom else (answer.start, answer.end)
    chart = drawn(_lines(answer, by), start.timestamp(), end.timestamp(), STEP_S[span], _marks(client))
    return {
        "chart": chart,
        "metric": metric,
        "span": span,
        "help": BY_SHORT[metric].help,
        "count": sum(series.count for series in answer.series),
        "accuracy": error_text(answer.relative_error),
        "left_out": "" if answer.left_out is None else f"{answer.left_out.series} with fewer requests are not shown",
    }


def parts(client: Client, params: Params) -> dict[str, Any]:
    """As `latency`, of the mean request's parts on each other: each one's share of the time, times the mean."""
    span, zoom = span_of(params), zoom_of(params)
    span = zoom.span if zoom else span
    when: dict[str, Any] = {"start": zoom.start, "end": zoom.end} if zoom else {"window": span}
    answer = client.shares(step=STEP_OF[span], pool=params.get("pool") or None, **when)
    start, end = (zoom.start, zoom.end) if zoom else (answer.start, answer.end)
    points = [at for series in answer.series for at in series.points or [] if at.requests]
    lines = [
        Line(name, [(at.time.timestamp(), at.shares.get(name, 0.0) * at.e2e_s / at.requests) for at in points])
        for name in (*(metric.short for metric in REQUEST_PARTS), UNACCOUNTED.short)
        if any(name in at.shares for at in points)
    ]
    return {
        "chart": stacked(lines, start.timestamp(), end.timestamp(), STEP_S[span], _marks(client)),
        "metric": "e2e",
        "span": span,
        "count": sum(at.requests for at in points),
        "accuracy": "",
        "left_out": "",
    }


def _lines(answer: QuantilesAnswer, by: Sequence[str]) -> list[Line]:
    """The tail last: it is drawn over the others."""
    lines = []
    for series in answer.series:
        for q in ("0.99",) if by else ("0.5", "0.95", "0.99"):
            name = f"p{float(q) * 100:g}" + (" " + " ".join(series.labels.values()) if by else "")
            found = [(at.time.timestamp(), at.quantiles[q]) for at in series.points or [] if q in at.quantiles]
            lines.append(Line(name, found))
    return lines


def _marks(client: Client) -> list[Mark]:
    """Rollouts, alerts and revisions, from the ledger."""
    return [
        mark
        for entry in client.ledger(limit=MARKS_LOOKED_AT)
        if (mark := mark_of(entry.time, entry.kind, entry.subject, entry.message)) is not None
    ]


def mark_of(time: datetime, kind: str, subject: str, message: str) -> Mark | None:
    """How an entry of the ledger is drawn; None for one that is not: "rollout/3" and "rollout.promoted" is "rollout 3
    promoted"."""
    drawn_as = next((drawn_as for begins, drawn_as in MARKS.items() if kind.startswith(begins)), None)
    if drawn_as is None:
        return None
    happened = kind.rpartition(".")[2].replace("_", " ")
    return Mark(time.timestamp(), drawn_as, f"{subject.replace('/', ' ')} {happened}", message)
