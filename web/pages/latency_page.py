"""Latency of one pool: quantiles, the request's parts, engine steps, what binds them, and the requests behind."""

from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.telemetry import Exemplar
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import LIMIT, REQUEST_PARTS, STEP_LIMIT
from controlplane.contract.step_limits import LIFTED_BY, MEANING
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection
from web.pages import behind
from web.pages.chart_parts import parts_chart, quantile_chart

HEADLINES = (
    quantile_chart("ttft", "Time to first token (ttft)"),
    quantile_chart("itl", "Time between tokens (itl)"),
    quantile_chart("e2e", "End to end (e2e)"),
    quantile_chart("tpot", "Time per output token (tpot)"),
)
WHOLE = parts_chart("Where the mean request's time goes")
REQUEST = tuple(quantile_chart(short) for short in (*(metric.short for metric in REQUEST_PARTS), "unaccounted"))
STEPS = tuple(quantile_chart(short) for short in ("step_schedule", "step_forward", "step_sample", "step_commit"))


def binds(client: Client, selection: Selection) -> Context:
    """What bound the steps of a pool's engines over the span, the largest share first; none where none told."""
    answer = client.rates(STEP_LIMIT.short, by=[LIMIT.label], pool=selection.pool, **selection.span)
    steps = {one.labels.get(LIMIT.label, ""): one.total for one in answer.series}
    every = sum(steps.values())
    rows: list[dict[str, Any]] = [
        {"limit": limit.value, "share": steps[limit] / every, "lifted_by": LIFTED_BY.get(limit), "meaning": words}
        for limit, words in MEANING.items()
        if steps.get(limit)
    ]
    return {"limits": sorted(rows, key=lambda row: -row["share"]), "limited_steps": every}


def slowest(client: Client, selection: Selection) -> Context:
    """The slowest requests of the span with their waterfalls."""
    found = client.requests(order="slowest", limit=10, pool=selection.pool, **selection.span)
    return {"requests": found.items}


def exemplars(client: Client, selection: Selection) -> Context:
    """The requests behind a quantile: of the chart's step at `at`, where one was chosen, else of the whole span.

    A step of whose requests none was kept as an exemplar is looked up in the request log.
    """
    metric, at = selection.own.get("metric", "ttft"), selection.own.get("at", "")
    above = _seconds(selection, "above")
    wanted: dict[str, Any] = {"pool": selection.pool, "above": selection.own.get("above"), "limit": 20}
    wanted |= {"start": at, "window": selection.step} if at else selection.span
    found = client.exemplars(metric, **wanted).items
    logged: list[Exemplar] = []
    all_seen = True
    if at and not found:
        logged, all_seen = behind.from_the_log(client, metric, selection.pool, at, selection.step_s, above)
    return {
        "exemplars": found or logged,
        "from_the_log": bool(logged),
        "all_seen": all_seen,
        "looked_at": behind.LOOKED_AT,
        "exemplar_metric": metric,
        "at": at,
        "above": above,
        "whole_span": "/latency" + selection.query(at=None, above=None),
    }


def _seconds(selection: Selection, name: str) -> float | None:
    value = selection.own.get(name)
    try:
        return float(value) if value else None
    except ValueError:
        raise BadRequest(f"{name}: wants a number of seconds", field=name) from None


CHARTS = {"headlines": HEADLINES, "whole_chart": WHOLE, "of_request": REQUEST, "steps": STEPS}
PAGE = Page(
    "latency",
    "/latency",
    "Latency",
    (
        *HEADLINES,
        WHOLE,
        *REQUEST,
        *STEPS,
        Part("binds", binds, 15),
        Part("exemplars", exemplars, 15),
        Part("slowest", slowest),
    ),
    key="e",
    one_pool=True,
    scripts=("charts.js",),
    whole=lambda client, selection: {
        "headlines": HEADLINES,
        "whole_chart": WHOLE,
        "of_request": REQUEST,
        "steps": STEPS,
    },
)
