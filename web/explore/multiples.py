"""Small multiples: latencies, load, errors and memory over one time axis, the first few unless all are asked for."""

from collections.abc import Callable
from dataclasses import dataclass

from controlplane.client import Client
from controlplane.contract.bodies.telemetry import RatesAnswer, ScalarsAnswer
from controlplane.contract.metrics import (
    E2E,
    FINISH_REASON,
    ITL,
    KV_USAGE,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    REQUEST_PARTS,
    REQUESTS,
    RUNNING,
    STEP_ATTENTION,
    STEP_COMMIT,
    STEP_DRAFT,
    STEP_FORWARD,
    STEP_SAMPLE,
    STEP_SCHEDULE,
    TPOT,
    TTFT,
    UNACCOUNTED,
    WAITING,
)
from web.drawing.line_chart import Line, drawn
from web.drawing.units import COUNT, PER_SECOND, SHARE, Unit
from web.explore.choices import NAMES, choices_of
from web.frame.page import Context, Part
from web.frame.selection import Selection
from web.pages.chart_parts import TEMPLATE, api_call, latency, marks, shown

FAILED = ("error", "timeout", "shed")
"""Finish reasons of requests that were not served; "abort" is the client's own."""
EVERY_S = 10.0
STEP_METRICS = (STEP_FORWARD, STEP_ATTENTION, STEP_SCHEDULE, STEP_SAMPLE, STEP_DRAFT, STEP_COMMIT)


@dataclass(frozen=True)
class Curve:
    """One line of a chart: its metric's short name, and what the chart calls it."""

    metric: str
    name: str


def seconds_chart(metric: str) -> Part:
    """Quantiles of a latency; on one scale with the others where the reader wants that."""
    title = NAMES.get(metric) or metric.removeprefix("step_").capitalize() + " of an engine's step"

    def asked(client: Client, selection: Selection) -> Context:
        top = _longest(client, selection) if choices_of(selection).one_scale else 0.0
        return latency(client, selection, metric, top=top) | {"title": title}

    return Part(f"multiple-{metric}", asked, EVERY_S, TEMPLATE, title)


def rate_chart(name: str, title: str, *curves: Curve) -> Part:
    def asked(client: Client, selection: Selection) -> Context:
        given = {"step": selection.step, **selection.span, **selection.labels}
        answers = [client.rates(curve.metric, **given) for curve in curves]
        lines = [Line(curve.name, _per_second(answer)) for curve, answer in zip(curves, answers, strict=True)]
        call = api_call("rates", {"metric": curves[-1].metric, **given})
        return _of(client, selection, lines, PER_SECOND, call, title)

    return Part(f"multiple-{name}", asked, EVERY_S, TEMPLATE, title)


def gauge_chart(name: str, title: str, unit: Unit, *curves: Curve) -> Part:
    """Gauges: the mean of the pool's nodes."""

    def asked(client: Client, selection: Selection) -> Context:
        labels = {label: value for label, value in selection.labels.items() if label in ("pool", "node", "role")}
        given = {"step": selection.step, **selection.span, **labels}
        answers = [client.scalars(curve.metric, **given) for curve in curves]
        lines = [Line(curve.name, _values(answer)) for curve, answer in zip(curves, answers, strict=True)]
        call = api_call("scalars", {"metric": curves[-1].metric, **given})
        return _of(client, selection, lines, unit, call, title)

    return Part(f"multiple-{name}", asked, EVERY_S, TEMPLATE, title)


def failures(client: Client, selection: Selection) -> Context:
    """Shares of the finished requests that were not served, and that their client left."""
    given = {"by": [FINISH_REASON.label], "step": selection.step, **selection.span, **selection.labels}
    answer = client.rates(REQUESTS.short, **given)
    whole = _totals(answer, lambda reason: True)

    def share(name: str, among: Callable[[str], bool]) -> Line:
        of = _totals(answer, among)
        return Line(name, [(time, of.get(time, 0.0) / total) for time, total in whole.items() if total])

    lines = [share("left", lambda reason: reason == "abort"), share("failed", lambda reason: reason in FAILED)]
    call = api_call("rates", {"metric": REQUESTS.short, **given})
    return _of(client, selection, lines, SHARE, call, "Errors")


FEW = (
    seconds_chart(TTFT.short),
    seconds_chart(ITL.short),
    seconds_chart(E2E.short),
    rate_chart("requests", "Requests finished", Curve(REQUESTS.short, "requests")),
    Part("multiple-errors", failures, EVERY_S, TEMPLATE, "Errors"),
    gauge_chart("kv", "KV cache in use", SHARE, Curve(KV_USAGE.short, "KV cache")),
)
MORE = (
    seconds_chart(TPOT.short),
    rate_chart("tokens", "Tokens", Curve(PROMPT_TOKENS.short, "prompt"), Curve(OUTPUT_TOKENS.short, "output")),
    gauge_chart(
        "in-engine", "Running and waiting", COUNT, Curve(RUNNING.short, "running"), Curve(WAITING.short, "waiting")
    ),
    *(seconds_chart(metric.short) for metric in (*REQUEST_PARTS, UNACCOUNTED)),
    *(seconds_chart(metric.short) for metric in STEP_METRICS),
)


def _of(client: Client, selection: Selection, lines: list[Line], unit: Unit, call: str, title: str) -> Context:
    start, end = (moment.timestamp() for moment in selection.range.at(selection.now))
    chart = drawn(lines, start, end, selection.step_s, marks(client, selection.pool), unit)
    return shown(chart, call, metric=title, count=sum(len(line.points) for line in lines)) | {"title": title}


def _longest(client: Client, selection: Selection) -> float:
    """The highest p99 that a chart of seconds shows: no part of a request takes longer than the request."""
    answer = client.quantiles(E2E.short, (0.5, 0.95, 0.99), step=selection.step, **selection.span, **selection.labels)
    points = [point for series in answer.series for point in series.points or []]
    return max((value for point in points for value in point.quantiles.values()), default=0.0)


def _per_second(answer: RatesAnswer) -> list[tuple[float, float]]:
    return [(at.time.timestamp(), at.per_second) for series in answer.series for at in series.points or []]


def _values(answer: ScalarsAnswer) -> list[tuple[float, float]]:
    return [(at.time.timestamp(), at.value) for series in answer.series for at in series.points or []]


def _totals(answer: RatesAnswer, among: Callable[[str], bool]) -> dict[float, float]:
    """Requests by step, of the finish reasons among those wanted."""
    found: dict[float, float] = {}
    for series in answer.series:
        if among(series.labels.get(FINISH_REASON.label, "")):
            for at in series.points or []:
                found[at.time.timestamp()] = found.get(at.time.timestamp(), 0.0) + at.total
    return dict(sorted(found.items()))
