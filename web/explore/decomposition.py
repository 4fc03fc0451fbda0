"""Where the time goes: of all requests, and of the slowest of them.

The tail is asked of the log of single requests, where each one's parts stand beside its latency: histograms of parts
do not tell which request a value is of. Guarantee: what is called "above p95" holds every such request of the log, or
the drawing says above which latency it does.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.telemetry import SharesAnswer
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.metrics import E2E, TTFT
from controlplane.contract.on_call.metric_text import metric_name
from web.drawing.line_chart import Line, stacked
from web.drawing.stacks import StackedBars, stacked_bars
from web.drawing.waterfall import PARTS, Request
from web.explore.choices import TAILS, choices_of
from web.frame.format import seconds
from web.frame.page import Context
from web.frame.selection import Selection
from web.pages.chart_parts import api_call, marks, shown

PAGES_READ = 2
"""Of the log, of `PAGE_LENGTH` requests each."""
PAGE_LENGTH = 500


@dataclass(frozen=True)
class Tail:
    """The slowest requests. `above_s`: all of them took longer, None where there are none; `whole`: whether none that
    took longer than was asked for is missing."""

    requests: Sequence[RequestRecord]
    above_s: float | None
    whole: bool


def tail_chart(client: Client, selection: Selection) -> Context:
    """The parts of the tail's requests over time; the context of parts/line_chart.html."""
    choices = choices_of(selection)
    tail, asked = _tail(client, selection)
    start, end = selection.range.at(selection.now)
    points = by_step(tail.requests, choices.of_requests, start, selection.step_s)
    lines = [Line(part, [(time, parts.get(part, 0.0)) for time, parts in points]) for part in told(tail.requests)]
    chart = stacked(lines, start.timestamp(), end.timestamp(), selection.step_s, marks(client, selection.pool))
    count = len(tail.requests)
    return shown(chart, api_call("requests", asked), metric="parts", count=count, accuracy=_words(tail)) | {
        "title": f"Requests above {metric_name(choices.of_requests)} {choices.tail}"
    }


def two_stacks(client: Client, selection: Selection) -> Context:
    """All requests against the tail's, as two bars; the context of parts/two_stacks.html."""
    choices = choices_of(selection)
    asked = {**selection.span, **selection.labels}
    everything = mean_parts(client.shares(**asked))
    tail, _ = _tail(client, selection)
    stacks: StackedBars | None = None
    if everything and tail.requests:
        above = f"above {metric_name(choices.of_requests)} {choices.tail}"
        stacks = stacked_bars([Request("all requests", everything), Request(above, means(tail.requests))])
    return {
        "stacks": stacks,
        "choices": choices,
        "tails": tuple(TAILS),
        "words": _words(tail),
        "call": api_call("shares", asked),
    }


def by_step(
    requests: Sequence[RequestRecord], metric: str, start: datetime, step_s: float
) -> list[tuple[float, dict[str, float]]]:
    """Mean seconds of each part by step (seconds since 1970): of the requests whose `metric` was complete in it."""
    steps: dict[int, list[RequestRecord]] = defaultdict(list)
    for request in requests:
        steps[int((_completed(request, metric) - start).total_seconds() // step_s)].append(request)
    return [(start.timestamp() + place * step_s, means(steps[place])) for place in sorted(steps)]


def means(requests: Sequence[RequestRecord]) -> dict[str, float]:
    """Mean seconds of each part; one that a request does not tell took no time of it."""
    count = len(requests)
    return {part: sum(one.parts.get(part, 0.0) for one in requests) / count for part in told(requests)}


def told(requests: Sequence[RequestRecord]) -> list[str]:
    """The parts that some request tells, in the order in which they pass."""
    return [part for part in PARTS if any(part in one.parts for one in requests)]


def mean_parts(answer: SharesAnswer) -> dict[str, float]:
    """Seconds of each part in the mean request of all series; empty without one."""
    series = [one for one in answer.series if one.requests]
    count = sum(one.requests for one in series)
    return {
        part: sum(one.shares.get(part, 0.0) * one.e2e_s for one in series) / count
        for part in PARTS
        if any(part in one.shares for one in series)
    }


def _tail(client: Client, selection: Selection) -> tuple[Tail, dict[str, Any]]:
    """And what was asked of the log."""
    choices = choices_of(selection)
    metric = choices.of_requests
    found = client.quantiles(metric, (TAILS[choices.tail],), **selection.span, **selection.labels)
    low = max((quantile for one in found.series for quantile in one.quantiles.values()), default=None)
    asked: dict[str, Any] = {"metric": metric, "low": low, "timed_by": "completion", "order": "slowest"}
    asked |= {"limit": PAGE_LENGTH, **selection.span, **selection.labels}
    requests: list[RequestRecord] = []
    cursor: str | None = None
    for _ in range(PAGES_READ if low is not None else 0):
        page = client.requests(**asked, cursor=cursor)
        requests += page.items
        cursor = page.next
        if cursor is None:
            break
    least = min((one.parts[metric] for one in requests if metric in one.parts), default=None)
    return Tail(requests, least if cursor else low, cursor is None), asked


def _words(tail: Tail) -> str:
    if not tail.requests:
        return "the log of single requests (48 hours) holds none of them"
    count = f"{len(tail.requests):,} requests above {seconds(tail.above_s)}"
    return count if tail.whole else f"the slowest {count}; there are more"


def _completed(request: RequestRecord, metric: str) -> datetime:
    after_s = request.parts.get(metric if metric == TTFT.short else E2E.short, 0.0)
    return request.arrival + timedelta(seconds=after_s)
