"""The heat map of one metric, with its quantiles over it and what happened meanwhile; two beside each other where the
page is compared with something, on one scale."""

from dataclasses import dataclass, replace
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.telemetry import HeatmapAnswer
from controlplane.contract.histogram import error_text
from web.drawing.heat_map import ChosenBox, HeatMap, heat_map, scale_of
from web.drawing.line_chart import Line
from web.drawing.one_scale import on_one_scale
from web.explore.choices import Box, Choices, choices_of
from web.explore.comparison import Sides, sides_of
from web.frame.page import Context
from web.frame.selection import Selection
from web.pages.chart_parts import QUANTILES, api_call, marks, quantile_lines

MOST_ROWS = 64


@dataclass(frozen=True)
class Told:
    """What the API told of one selection: counts, quantiles over them, and the question."""

    counted: HeatmapAnswer
    lines: list[Line]
    call: str


@dataclass(frozen=True)
class Side:
    """One of two heat maps. `explained`: the page on which a box that is drawn here is explained; empty: this one."""

    name: str
    chart: HeatMap
    call: str
    explained: str


def latency_map(client: Client, selection: Selection) -> Context:
    """The context of parts/latency_map.html."""
    choices = choices_of(selection)
    told = _told(client, choices, selection)
    return {
        "choices": choices,
        "chart": heat_map(told.counted, told.lines, marks(client, selection.pool), choices.noun, _box_of(choices)),
        "title": choices.title,
        "accuracy": error_text(told.counted.relative_error),
        "call": told.call,
    }


def two_maps(client: Client, selection: Selection) -> Context:
    """The context of parts/two_maps.html: this side and the other one under the same edges and colours."""
    choices, sides = choices_of(selection), sides_of(selection)
    own, other = _told(client, choices, sides.own), _told(client, choices, sides.other)
    counted = on_one_scale([own.counted, other.counted])
    scale, happened = scale_of(*counted), marks(client, selection.pool)
    charts = [
        heat_map(one, told.lines, happened, choices.noun, box, scale)
        for one, told, box in zip(counted, (own, other), (_box_of(choices), None), strict=True)
    ]
    title = choices.title
    return {
        "title": title,
        "one_time": sides.own.span == sides.other.span,
        "sides": [
            Side(f"{title}: {sides.own_name}", charts[0], own.call, ""),
            Side(f"{title}: {sides.other_name}", charts[1], other.call, _page_of(sides, selection)),
        ],
        "accuracy": error_text(max(one.relative_error for one in counted)),
    }


def _told(client: Client, choices: Choices, selection: Selection) -> Told:
    asked: dict[str, Any] = {"metric": choices.metric, "step": selection.step, **selection.span, **selection.labels}
    counted = client.heatmap(rows=MOST_ROWS, **asked)
    lines = quantile_lines(client.quantiles(q=QUANTILES, **asked))
    return Told(counted, lines, api_call("heatmap", {"rows": MOST_ROWS, **asked}))


def _page_of(sides: Sides, selection: Selection) -> str:
    """Explore of the other side alone."""
    return "/explore" + replace(sides.other, range_said=True, own=selection.own).query(box=None, against=None)


def _box_of(choices: Choices) -> ChosenBox | None:
    return None if choices.box is None else _drawn(choices.box)


def _drawn(box: Box) -> ChosenBox:
    return ChosenBox(box.start.timestamp(), box.end.timestamp(), box.low, box.high)
