"""The page's selection against another: an earlier span, a revision or a node, with the difference and its error."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.explanation import Bounded, CompareAnswer, ComparedMetric, ComparedQuantile
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.on_call.metric_text import metric_name
from web.drawing.line_chart import drawn
from web.drawing.stacks import StackedBars, stacked_bars
from web.drawing.waterfall import PARTS, Request
from web.explore.choices import TAILS, choices_of
from web.frame.format import seconds
from web.frame.page import Context, Part
from web.frame.selection import Selection
from web.frame.states import Kind
from web.frame.time_range import TimeRange, duration
from web.pages.chart_parts import QUANTILES, TEMPLATE, api_call, marks, quantile_lines, shown

EVERY_S = 15.0


@dataclass(frozen=True)
class Sides:
    """The page's own side and the other one: what each is called, and its selection."""

    own_name: str
    own: Selection
    other_name: str
    other: Selection


@dataclass(frozen=True)
class Row:
    """A quantile on both sides in words. `kind`, `verdict`: what the difference is."""

    metric: str
    quantile: str
    own: str
    other: str
    ratio: str
    difference: str
    kind: Kind
    verdict: str


def sides_of(selection: Selection) -> Sides:
    """Both with fixed spans, so that all that is asked of one is of one time; they move on by whole windows of data, so
    that all who look are answered alike. Asked for only with a comparison."""
    comparison = selection.compare
    assert comparison is not None, "the part is on the page only with a comparison"
    now = datetime.fromtimestamp(selection.now.timestamp() // WINDOW_S * WINDOW_S, UTC)
    start, end = selection.range.at(now)
    own = replace(selection, range=TimeRange(start.isoformat(), end.isoformat()), compare=None)
    if comparison.kind == "earlier":
        by = duration(comparison.with_, "compare")
        span = TimeRange((start - by).isoformat(), (end - by).isoformat())
        return Sides("this span", own, comparison.words, replace(own, range=span))
    label = comparison.kind
    name = f"{label} {own.filters[label]}" if label in own.filters else f"every {label}"
    return Sides(name, own, comparison.words, replace(own, filters={**own.filters, label: comparison.with_}))


def compared(client: Client, selection: Selection) -> Context:
    """The context of parts/compared.html."""
    choices, sides = choices_of(selection), sides_of(selection)
    asked: dict[str, Any] = {"metric": choices.metric, "q": tuple(sorted({*QUANTILES, TAILS[choices.tail]}))}
    asked |= {**sides.own.span, **sides.own.labels, **b_params(sides)}
    answer = client.compare(**asked)
    rows = rows_of(answer, f"{TAILS[choices.tail]:g}")
    return {
        "sides": sides,
        "choices": choices,
        "level": answer.level,
        "sentences": [one.sentence for one in answer.metrics[0].quantiles] if answer.metrics else [],
        "rows": rows,
        "stacks": mean_stacks(answer, sides),
        "call": api_call("compare", asked),
        "copied": copied(answer),
        "alone": "/explore" + selection.query(compare=None),
    }


def side_chart(name: str, *, own: bool) -> Part:
    """One side's quantiles over time; both sides' charts have one scale."""

    def asked(client: Client, selection: Selection) -> Context:
        metric, sides = choices_of(selection).metric, sides_of(selection)
        of, beside = (sides.own, sides.other) if own else (sides.other, sides.own)
        given: dict[str, Any] = {"metric": metric, "q": QUANTILES, "step": of.step}
        answer = client.quantiles(**given, **of.span, **of.labels)
        lines = quantile_lines(answer)
        across = quantile_lines(client.quantiles(**given, **beside.span, **beside.labels))
        top = max((value for line in (*lines, *across) for _, value in line.points), default=0.0)
        start_s, end_s = answer.start.timestamp(), answer.end.timestamp()
        chart = drawn(lines, start_s, end_s, of.step_s, marks(client, of.pool), top=top)
        call = api_call("quantiles", {**given, **of.span, **of.labels})
        count = sum(series.count for series in answer.series)
        title = f"{metric_name(metric)}: {sides.own_name if own else sides.other_name}"
        return shown(chart, call, metric=metric, count=count) | {"title": title}

    return Part(name, asked, EVERY_S, TEMPLATE, when=has_comparison)


def has_comparison(selection: Selection) -> bool:
    return selection.compare is not None


def b_params(sides: Sides) -> dict[str, Any]:
    """What the other side has of its own, as the API takes it."""
    span, own = sides.other.span, sides.own.span
    differing = {f"b_{name}": value for name, value in span.items() if value != own[name]}
    own_labels, labels = sides.own.labels, sides.other.labels
    if "role" in own_labels and "role" not in labels:
        differing["b_role"] = "any"
    return differing | {f"b_{label}": value for label, value in labels.items() if value != own_labels.get(label)}


def rows_of(answer: CompareAnswer, tail: str) -> list[Row]:
    """Every quantile of the metric, and the tail's of each part."""
    if not answer.metrics:
        return []
    first, *parts = answer.metrics
    rows = [row_of(first, one) for one in first.quantiles]
    return rows + [row_of(part, one) for part in parts for one in part.quantiles if float(one.q) == float(tail)]


def row_of(metric: ComparedMetric, one: ComparedQuantile) -> Row:
    kind, verdict = verdict_of(one)
    return Row(
        metric=metric.metric,
        quantile=f"p{100 * float(one.q):g}",
        own=bounded(one.a) if one.a else seconds(one.a_value),
        other=bounded(one.b) if one.b else seconds(one.b_value),
        ratio="–" if one.ratio is None else f"{one.ratio.value:.2f} × ({one.ratio.low:.2f} to {one.ratio.high:.2f})",
        difference="–" if one.difference is None else signed(one.difference),
        kind=kind,
        verdict=verdict,
    )


def verdict_of(one: ComparedQuantile) -> tuple[Kind, str]:
    if one.differs is None or one.difference is None:
        return Kind.UNKNOWN, f"too few: {one.needed:,} needed on each side"
    if not one.differs:
        return Kind.UNKNOWN, "no clear difference"
    return (Kind.BAD, "slower") if one.difference.value > 0 else (Kind.GOOD, "faster")


def bounded(of: Bounded) -> str:
    """Such as "1.65 s (1.60 s to 1.71 s)"."""
    return f"{seconds(of.value)} ({seconds(of.low)} to {seconds(of.high)})"


def signed(of: Bounded) -> str:
    """Such as "+400 ms (+350 ms to +450 ms)"."""
    value, low, high = (("-" if one < 0 else "+") + seconds(abs(one)) for one in (of.value, of.low, of.high))
    return f"{value} ({low} to {high})"


def mean_stacks(answer: CompareAnswer, sides: Sides) -> StackedBars | None:
    """The mean request's parts, the other side first: it is what is compared with. None where a side has none."""
    means = {one.metric: one for one in answer.metrics if one.metric in PARTS}
    own = {part: one.a_mean for part, one in means.items() if one.a_mean is not None}
    other = {part: one.b_mean for part, one in means.items() if one.b_mean is not None}
    return stacked_bars([Request(sides.other_name, other), Request(sides.own_name, own)]) if own and other else None


def copied(answer: CompareAnswer) -> dict[str, Any]:
    """{"head", "rows"}: every quantile of every metric."""
    head = ["metric", "q", "a", "b", "difference", "difference_low", "difference_high", "ratio"]
    rows: list[Sequence[Any]] = [
        (
            metric.metric,
            one.q,
            one.a_value,
            one.b_value,
            *((one.difference.value, one.difference.low, one.difference.high) if one.difference else (None,) * 3),
            one.ratio.value if one.ratio else None,
        )
        for metric in answer.metrics
        for one in metric.quantiles
    ]
    return {"head": head, "rows": rows}


PARTS_OF_PAGE = (
    Part("compared", compared, EVERY_S, when=has_comparison),
    side_chart("side-own", own=True),
    side_chart("side-other", own=False),
)
