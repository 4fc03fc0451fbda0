"""The heat map of one metric, with its quantiles over it and what happened meanwhile."""

from controlplane.client import Client
from controlplane.contract.histogram import error_text
from web.drawing.heat_map import ChosenBox, heat_map
from web.explore.choices import Box, choices_of
from web.frame.page import Context
from web.frame.selection import Selection
from web.pages.chart_parts import QUANTILES, api_call, marks, quantile_lines

MOST_ROWS = 64


def latency_map(client: Client, selection: Selection) -> Context:
    """The context of parts/latency_map.html."""
    choices = choices_of(selection)
    asked = {"metric": choices.metric, "step": selection.step, **selection.span, **selection.labels}
    counted = client.heatmap(rows=MOST_ROWS, **asked)
    box = None if choices.box is None else _drawn(choices.box)
    lines = quantile_lines(client.quantiles(q=QUANTILES, **asked))
    return {
        "choices": choices,
        "chart": heat_map(counted, lines, marks(client), choices.noun, box),
        "title": f"{choices.name} ({choices.metric})",
        "accuracy": error_text(counted.relative_error),
        "call": api_call("heatmap", {"rows": MOST_ROWS, **asked}),
    }


def _drawn(box: Box) -> ChosenBox:
    return ChosenBox(box.start.timestamp(), box.end.timestamp(), box.low, box.high)
