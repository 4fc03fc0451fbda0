"""Select to explain: what tells the requests in a box of the heat map from the others, and those requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.explanation import ExplainAnswer, ExplainedFactor, ExplainedPart
from controlplane.contract.metrics import E2E, TPOT, TTFT
from controlplane.contract.on_call.metric_text import metric_name
from web.drawing.share_bars import Pair, SharePair, share_pair
from web.drawing.stacks import StackedBars, stacked_bars
from web.drawing.waterfall import PARTS, Request
from web.explore.choices import Box, Choices, choices_of
from web.frame.format import clock, label_words, seconds
from web.frame.page import Context
from web.frame.selection import FILTERS, Selection
from web.pages.chart_parts import api_call
from web.pages.requests_page import MORE_FILTERS, address_of, drawn

LISTED = 20
VALUES_SHOWN = 4
"""Of each factor; the API puts those that differ first."""


@dataclass(frozen=True)
class Value:
    """One value of a factor. `address`: the page filtered by it, empty where it is no filter."""

    pair: SharePair
    address: str


@dataclass(frozen=True)
class Factor:
    """What a factor tells. `rest`: values that are not shown."""

    name: str
    sentence: str
    values: Sequence[Value]
    rest: int


def box_explained(client: Client, selection: Selection) -> Context:
    """The context of parts/box_explained.html. Asked for only where the address has a box."""
    choices = choices_of(selection)
    box = choices.box
    assert box is not None, "the part is on the page only with a box"
    asked: dict[str, Any] = {"metric": choices.of_requests, "start": box.start, "end": box.end}
    asked |= {"low": box.low, "high": box.high, **selection.labels}
    answer = client.explain(against=choices.against, **asked)
    listed = client.requests(timed_by="completion", order="slowest", limit=LISTED, **asked).items
    factors = [_factor(one, selection, choices, box) for one in answer.factors]
    named = sum(one.named for one in answer.factors)
    return {
        "choices": choices,
        "box": words_of(choices, box),
        "answer": answer,
        "named": factors[:named],
        "others": factors[named:],
        "stages": stages(answer.parts),
        "stage_words": stage_words(answer.parts),
        "rows": [(record, address_of(record, selection)) for record in listed],
        "chart": drawn(listed),
        "every_request": requests_address(selection, choices, box),
        "dropped": "/explore" + selection.query(box=None, against=None),
        "call": api_call("explain", {"against": choices.against, **asked}),
        "copied": rows_of(answer),
    }


def words_of(choices: Choices, box: Box) -> str:
    """Such as "TTFT 500 ms to 2.00 s, 12:03:00 to 12:05:00"."""
    lasted = f"{clock(box.start)} to {clock(box.end)}"
    return f"{metric_name(choices.of_requests)} {seconds(box.low)} to {seconds(box.high)}, {lasted}"


def stages(parts: Sequence[ExplainedPart]) -> StackedBars | None:
    """The mean waterfalls outside and inside; None where no part is told of both."""
    told = {one.part: one for one in parts if one.part in PARTS}
    if not told:
        return None
    outside = {part: one.outside_s for part, one in told.items()}
    inside = {part: one.inside_s for part, one in told.items()}
    return stacked_bars([Request("outside", outside), Request("inside", inside)])


def stage_words(parts: Sequence[ExplainedPart]) -> str:
    """The stage whose means differ most, with the interval; empty where no difference is clear of none."""
    clear = [
        one
        for one in parts
        if one.part not in (TTFT.short, TPOT.short, E2E.short) and not one.low_s <= 0.0 <= one.high_s
    ]
    if not clear:
        return ""
    most = max(clear, key=lambda one: abs(one.difference_s))
    sign, how = (1.0, "longer") if most.difference_s > 0 else (-1.0, "shorter")
    low_s, high_s = sorted((sign * most.low_s, sign * most.high_s))
    return f"Inside, {most.part} took {seconds(abs(most.difference_s))} {how} ({seconds(low_s)} to {seconds(high_s)})."


def requests_address(selection: Selection, choices: Choices, box: Box, **labels: str) -> str:
    """The box's requests in the log, all of them."""
    moments = {"from": box.start.isoformat(), "to": box.end.isoformat()}
    bounds = {"metric": choices.of_requests, "min": f"{box.low:g}", "max": f"{box.high:g}", "order": "slowest"}
    return "/requests" + selection.frame_query(**moments, **bounds, compare=None, **labels)


def rows_of(answer: ExplainAnswer) -> dict[str, Any]:
    """{"head", "rows"}: every value of every factor, to copy."""
    head = ["factor", "value", "inside", "outside", "share_inside", "share_outside", "low", "high", "p_value"]
    rows = [
        (factor.factor, *(getattr(one, name) for name in head[1:]))
        for factor in answer.factors
        for one in factor.values
    ]
    return {"head": head, "rows": rows}


def _factor(one: ExplainedFactor, selection: Selection, choices: Choices, box: Box) -> Factor:
    values = []
    for value in one.values[:VALUES_SHOWN]:
        pair = Pair(value.value or "not told", value.share_inside, value.share_outside, value.low, value.high)
        values.append(Value(share_pair(pair), _address(one.factor, value.value, selection, choices, box)))
    rest = one.others + len(one.values) - len(values)
    return Factor(label_words(one.factor), one.sentence, values, rest)


def _address(factor: str, value: str, selection: Selection, choices: Choices, box: Box) -> str:
    if not value:
        return ""
    if factor in FILTERS:
        return "/explore" + selection.query(**{factor: value})
    return requests_address(selection, choices, box, **{factor: value}) if factor in MORE_FILTERS else ""
