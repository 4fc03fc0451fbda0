"""What bound the engines' steps over time, and what lifts each limit."""

from controlplane.client import Client
from controlplane.contract.metrics import LIMIT, STEP_LIMIT
from controlplane.contract.step_limits import STEP_LIMITS, StepLimit
from web.drawing.ribbon import ribbon
from web.frame.page import Context
from web.frame.selection import Selection
from web.pages.chart_parts import api_call

TOLD_BY = ("pool", "node", "revision", "model", "role")
"""Labels that an engine's step has: it is of many requests, whose own labels it has not."""


def what_binds(client: Client, selection: Selection) -> Context:
    """The context of parts/what_binds.html."""
    labels = {label: value for label, value in selection.labels.items() if label in TOLD_BY}
    asked = {"by": [LIMIT.label], "step": selection.step, **selection.span, **labels}
    answer = client.rates(STEP_LIMIT.short, **asked)
    steps = {
        StepLimit(series.labels[LIMIT.label]): [(at.time.timestamp(), at.total) for at in series.points or []]
        for series in answer.series
        if series.labels.get(LIMIT.label) in STEP_LIMITS
    }
    start, end = selection.range.at(selection.now)
    start_s = min(start.timestamp(), answer.start.timestamp())
    return {
        "chart": ribbon(steps, start_s, end.timestamp(), selection.step_s),
        "call": api_call("rates", {"metric": STEP_LIMIT.short, **asked}),
        "left_aside": sorted(set(selection.labels) - set(labels)),
    }
