"""One node over time: its latency over its pool's on one axis, and what its engine and host did meanwhile."""

from dataclasses import replace

from controlplane.client import Client
from controlplane.contract import metrics
from controlplane.contract.bodies.telemetry import QuantilesAnswer
from controlplane.contract.histogram import error_text
from controlplane.contract.metrics import TTFT
from web.drawing.line_chart import Line, drawn
from web.drawing.units import COUNT, SHARE
from web.explore.multiples import Curve, gauge_chart
from web.frame.page import Context, Part
from web.frame.selection import SERVING, Selection
from web.pages.chart_parts import TEMPLATE, api_call, marks, shown

TAIL = 0.99
EVERY_S = 15.0


def name_of(selection: Selection) -> str:
    return selection.own.get("node_name", "")


def against_pool(client: Client, selection: Selection) -> Context:
    """p99 time to first token of the node, and of all of its pool."""
    name = name_of(selection)
    pool = client.node(name).pool
    labels = {label: value for label, value in selection.labels.items() if label not in ("pool", "node", "role")}
    given = {"step": selection.step, **selection.span, **labels}
    of_pool = client.quantiles(TTFT.short, (TAIL,), pool=pool, **SERVING, **given)
    of_node = client.quantiles(TTFT.short, (TAIL,), node=name, **given)
    lines = [Line(f"p99 of pool {pool}", _points(of_pool)), Line(f"p99 of {name}", _points(of_node))]
    chart = drawn(lines, of_node.start.timestamp(), of_node.end.timestamp(), selection.step_s, marks(client, pool))
    call = api_call("quantiles", {"metric": TTFT.short, "q": [TAIL], "node": name, **given})
    counted = sum(series.count for answer in (of_pool, of_node) for series in answer.series)
    accuracy = error_text(max(of_pool.relative_error, of_node.relative_error))
    return shown(chart, call, metric=TTFT.short, count=counted, accuracy=accuracy) | {"title": AGAINST_POOL.title}


def of_node(part: Part) -> Part:
    """The same chart of the page's node."""

    def asked(client: Client, selection: Selection) -> Context:
        return part.asked(client, replace(selection, filters={"node": name_of(selection)}))

    return replace(part, name=part.name.replace("multiple-", "node-"), asked=asked, every_s=EVERY_S)


def _points(answer: QuantilesAnswer) -> list[tuple[float, float]]:
    return [
        (at.time.timestamp(), at.quantiles[f"{TAIL:g}"])
        for series in answer.series
        for at in series.points or []
        if f"{TAIL:g}" in at.quantiles
    ]


def _curve(metric: metrics.Metric, name: str) -> Curve:
    return Curve(metric.short, name)


AGAINST_POOL = Part("against_pool", against_pool, EVERY_S, TEMPLATE, "p99 time to first token, node and pool")
CHARTS = tuple(
    of_node(chart)
    for chart in (
        gauge_chart("kv", "KV cache in use", SHARE, _curve(metrics.KV_USAGE, "KV cache")),
        gauge_chart(
            "in-engine",
            "Running and waiting",
            COUNT,
            _curve(metrics.RUNNING, "running"),
            _curve(metrics.WAITING, "waiting"),
        ),
        gauge_chart(
            "pressure",
            "Host: waiting for CPU, memory, I/O",
            SHARE,
            _curve(metrics.HOST_PRESSURE_IO, "I/O"),
            _curve(metrics.HOST_PRESSURE_MEMORY, "memory"),
            _curve(metrics.HOST_PRESSURE_CPU, "CPU"),
        ),
        gauge_chart(
            "cpu",
            "Host: CPU time",
            SHARE,
            _curve(metrics.HOST_STEAL, "stolen"),
            _curve(metrics.HOST_ENGINE_CPU, "engine"),
            _curve(metrics.HOST_OTHER_CPU, "others"),
        ),
    )
)
"""Beside each other, on the page's span."""
