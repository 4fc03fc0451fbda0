"""Charts as parts of a page: quantiles and the request's parts over time, with what happened meanwhile."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from controlplane.client import Client
from controlplane.client.connection import query_of
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.telemetry import QuantilesAnswer
from controlplane.contract.histogram import error_text
from controlplane.contract.metrics import E2E, ITL, POOL, REQUEST_PARTS, TPOT, TTFT, UNACCOUNTED
from web.drawing.line_chart import Line, LineChart, Mark, drawn, stacked
from web.frame.page import Context, Part
from web.frame.selection import Selection

QUANTILES = (0.5, 0.95, 0.99)
MOST_LINES = 50
MARKS = {
    "rollout.started": "rollout",
    "rollout.promoted": "rollout",
    "rollout.rolled_back": "rollout",
    "rollout.failed": "rollout",
    "alert.fired": "alert",
    "alert.resolved": "resolved",
    "revision.created": "revision",
    "revision.adopted": "revision",
    "node.enrolled": "node",
    "node.removed": "node",
    "node.config_failed": "node",
    "node.lease_ended": "node",
    "event.posted": "event",
    "node.engine_version": "engine",
    "node.engine_restarted": "engine",
}
"""Kinds of the ledger's entries, or what they begin with, and how a mark of theirs is drawn."""
MARKED_DOMAINS = tuple(dict.fromkeys(kind.partition(".")[0] for kind in MARKS))
MARKS_LOOKED_AT = 50
"""The newest entries of each domain among which marks are looked for."""
BEHIND = {metric.short: metric.short for metric in (TTFT, TPOT, E2E, *REQUEST_PARTS)} | {ITL.short: TPOT.short}
"""What the requests behind a point are looked for by; e2e where a chart is of nothing that single requests have."""
TEMPLATE = "line_chart"


def parts_chart(title: str) -> Part:
    def asked(client: Client, selection: Selection) -> Context:
        return parts(client, selection) | {"title": title}

    return Part("chart-parts", asked, template=TEMPLATE, title=title)


def latency(client: Client, selection: Selection, metric: str, by: str = "", top: float = 0.0) -> Context:
    """The context of parts/line_chart.html. Steps without data are left out of a line, which then has a gap. `top`:
    seconds that the axis goes up to at least."""
    grouped = [by] if by else []
    asked = {"step": selection.step, "by": grouped, "top": MOST_LINES, **selection.span, **selection.labels}
    answer = client.quantiles(metric, QUANTILES, **asked)
    start_s, end_s = answer.start.timestamp(), answer.end.timestamp()
    lines = quantile_lines(answer, grouped)
    return shown(
        drawn(lines, start_s, end_s, selection.step_s, marks(client, selection.pool), top=top),
        api_call("quantiles", {"metric": metric, "q": QUANTILES, **asked}),
        metric=metric,
        count=sum(series.count for series in answer.series),
        accuracy=error_text(answer.relative_error),
        left_out="" if answer.left_out is None else f"{answer.left_out.series} with fewer requests are not shown",
    )


def parts(client: Client, selection: Selection) -> Context:
    """As `latency`, of the mean request's parts on each other: each one's share of the time, times the mean."""
    asked = {"step": selection.step, **selection.span, **selection.labels}
    answer = client.shares(**asked)
    points = [at for series in answer.series for at in series.points or [] if at.requests]
    lines = [
        Line(name, [(at.time.timestamp(), at.shares.get(name, 0.0) * at.e2e_s / at.requests) for at in points])
        for name in (*(metric.short for metric in REQUEST_PARTS), UNACCOUNTED.short)
        if any(name in at.shares for at in points)
    ]
    start_s, end_s = answer.start.timestamp(), answer.end.timestamp()
    chart = stacked(lines, start_s, end_s, selection.step_s, marks(client, selection.pool))
    return shown(chart, api_call("shares", asked), metric="parts", count=sum(at.requests for at in points))


def shown(chart: LineChart, call: str, *, metric: str, count: float, accuracy: str = "", left_out: str = "") -> Context:
    """What parts/line_chart.html writes. `call`: the API's path and query that answer the same; `count`: values that
    are drawn, 0: there are none."""
    return {
        "chart": chart,
        "call": call,
        "metric": metric,
        "behind": BEHIND.get(metric, E2E.short),
        "count": count,
        "accuracy": accuracy,
        "left_out": left_out,
    }


def api_call(name: str, asked: Mapping[str, Any]) -> str:
    """The path and query of a question about telemetry, as a reader may ask it again."""
    given = {key: value for key, value in asked.items() if value not in (None, "", [], ())}
    return f"/api/v1/{name}?" + urlencode(query_of(given), doseq=True, safe=",:")


def quantile_lines(answer: QuantilesAnswer, by: Sequence[str] = ()) -> list[Line]:
    """The tail last: it is drawn over the others."""
    lines = []
    for series in answer.series:
        for q in ("0.99",) if by else ("0.5", "0.95", "0.99"):
            name = f"p{float(q) * 100:g}" + (" " + " ".join(series.labels.values()) if by else "")
            found = [(at.time.timestamp(), at.quantiles[q]) for at in series.points or [] if q in at.quantiles]
            lines.append(Line(name, found))
    return lines


def marks(client: Client, pool: str | None = None) -> list[Mark]:
    """Rollouts, alerts, revisions, nodes that came or went, and engines that were started again or are of another
    version, from the ledger. Each domain is asked for by itself: the
    trials of one study would drive all else out of the newest entries.

    Of a pool: without what is another one's.
    """
    return [
        mark
        for domain in MARKED_DOMAINS
        for entry in client.ledger(kind=domain, limit=MARKS_LOOKED_AT)
        if pool is None or pool_of(entry) in (None, pool)
        if (mark := _posted(entry) or mark_of(entry.time, entry.kind, entry.subject, entry.message)) is not None
    ]


def pool_of(entry: LedgerEntry) -> str | None:
    """The pool that an entry is about; None: it does not say."""
    labels, (name, _, subject) = entry.evidence.get("labels"), entry.subject.partition("/")
    labelled = labels.get(POOL.label) if isinstance(labels, dict) else None
    told = entry.evidence.get("pool") or labelled or (subject if name == "pool" else None)
    return told if isinstance(told, str) else None


def _posted(entry: LedgerEntry) -> Mark | None:
    """Of a deed of others: where it happened in time, in their words."""
    said = entry.evidence.get("time") if entry.kind == "event.posted" else None
    if not isinstance(said, str):
        return None
    return Mark(datetime.fromisoformat(said).timestamp(), "event", entry.message, entry.message)


def mark_of(time: datetime, kind: str, subject: str, message: str) -> Mark | None:
    """How an entry of the ledger is drawn; None for one that is not: "rollout/3" and "rollout.promoted" is "rollout 3
    promoted"."""
    drawn_as = next((drawn_as for begins, drawn_as in MARKS.items() if kind.startswith(begins)), None)
    if drawn_as is None:
        return None
    happened = kind.rpartition(".")[2].replace("_", " ")
    return Mark(time.timestamp(), drawn_as, f"{subject.replace('/', ' ')} {happened}", message)
