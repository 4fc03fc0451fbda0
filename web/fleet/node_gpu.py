"""A node's GPU over time: clock, temperature, power, memory, and why its clocks were held down.

Guarantee: where the agent told no GPU, nothing is drawn, and the page says what would fill it.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from controlplane.client import Client
from controlplane.contract import metrics
from controlplane.contract.bodies.telemetry import ScalarPoint
from controlplane.contract.metrics import Metric
from controlplane.contract.reports.gpu_clocks import REASONS
from web.drawing.line_chart import drawn
from web.drawing.units import CELSIUS, MEGAHERTZ, SHARE, WATTS, Unit
from web.explore.multiples import Curve, gauge_chart
from web.fleet.node_charts import name_of, of_node
from web.frame.page import Context, Part
from web.frame.selection import Selection
from web.pages.chart_parts import shown

TELLING = (metrics.GPU_MEMORY, metrics.GPU_CLOCK, metrics.GPU_TEMPERATURE)
"""One of these every GPU tells."""


@dataclass(frozen=True)
class Held:
    """A reason for which clocks were held down. `share`: of the span's steps; `last`: the last of them."""

    reason: str
    share: float
    last: datetime


def told(client: Client, selection: Selection) -> bool:
    """Whether the node told of a GPU in the page's span."""
    given = {**selection.span, "node": name_of(selection)}
    return any(client.scalars(metric.short, **given).series for metric in TELLING)


def gpu(client: Client, selection: Selection) -> Context:
    """The context of parts/gpu.html."""
    if not told(client, selection):
        return {"told": False, "reasons": []}
    asked = {"step": selection.step, **selection.span, "node": name_of(selection)}
    answer = client.scalars(metrics.GPU_THROTTLE_REASON.short, **asked)
    points = [point for series in answer.series for point in series.points or []]
    return {"told": True, "any": bool(points), "reasons": held(points)}


def held(points: list[ScalarPoint]) -> list[Held]:
    """Of NVML's bits at each step, the commonest reason first."""
    found = []
    for bit, reason in REASONS.items():
        times = [point.time for point in points if int(point.value) & bit]
        if times:
            found.append(Held(reason, len(times) / len(points), max(times)))
    return sorted(found, key=lambda one: -one.share)


def where_told(part: Part) -> Part:
    """The same chart, empty and not asked for where there is no GPU."""

    def asked(client: Client, selection: Selection) -> Context:
        if told(client, selection):
            return part.asked(client, selection)
        start_s, end_s = (moment.timestamp() for moment in selection.range.at(selection.now))
        empty = drawn([], start_s, end_s, selection.step_s, [])
        return shown(empty, "", metric=part.title, count=0) | {"title": part.title}

    return replace(part, asked=asked)


def _chart(name: str, title: str, unit: Unit, **curves: Metric) -> Part:
    lines = (Curve(metric.short, words.replace("_", " ")) for words, metric in curves.items())
    return where_told(of_node(gauge_chart(f"gpu-{name}", f"GPU: {title}", unit, *lines)))


CHARTS = (
    _chart("clock", "clock", MEGAHERTZ, highest=metrics.GPU_CLOCK_MAX, clock=metrics.GPU_CLOCK),
    _chart("temperature", "temperature", CELSIUS, temperature=metrics.GPU_TEMPERATURE),
    _chart("power", "power", WATTS, limit=metrics.GPU_POWER_LIMIT, power=metrics.GPU_POWER),
    _chart(
        "memory",
        "memory, and use by others",
        SHARE,
        used_by_others=metrics.GPU_OTHER_UTILIZATION,
        memory=metrics.GPU_MEMORY,
    ),
)
"""Beside each other, on the page's span."""
