"""Canary and control over the time of a rollout: small multiples on one axis of time, one a judged metric."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.rollouts import Rollout
from controlplane.contract.bodies.telemetry import QuantilesAnswer
from controlplane.contract.histogram import error_text
from controlplane.contract.metrics import E2E, ITL, NODE, REQUEST_PARTS, TPOT, TTFT
from web.drawing.line_chart import Line, Mark, drawn
from web.drawing.trends import HELD, Trend
from web.explore.choices import NAMES
from web.frame.format import percent, seconds
from web.frame.page import Context, Part, number
from web.frame.selection import Selection
from web.frame.time_range import NOW, TimeRange
from web.pages.chart_parts import TEMPLATE, api_call, shown
from web.rollouts.judgements import WAVES, moment_of

EVERY_S = 10.0
METRICS = tuple(dict.fromkeys(metric.short for metric in (TTFT, TPOT, E2E, ITL, *REQUEST_PARTS)))
"""Each has its place on the page; what a rollout does not judge has no data there, and is not shown."""
HIGHEST_LEVEL = 0.95
"""The highest judged quantile up to here is drawn: beyond, single requests jump."""
BEFORE_LEAST, BEFORE_MOST, BEFORE_PART = timedelta(minutes=2), timedelta(minutes=30), 0.5
"""What was before the start is shown for half as long as the rollout lasts, within bounds."""
BOTH = 2
"""Arms."""
MOST_NODES = 50
"""Of an arm that is asked for: an address holds no thousand names. Which stand for the others is said."""


@dataclass(frozen=True)
class Arm:
    """Some of its nodes; `whole`: how many there are."""

    name: str
    nodes: list[str]
    whole: int


def chart(metric: str) -> Part:
    title = NAMES.get(metric) or metric.capitalize()

    def asked(client: Client, selection: Selection) -> Context:
        return arms(client, selection, metric) | {"title": title}

    return Part(f"arms-{metric}", asked, EVERY_S, TEMPLATE, title)


CHARTS = tuple(chart(metric) for metric in METRICS)


def arms(client: Client, selection: Selection, metric: str) -> Context:
    """One metric of both arms at a judged quantile; parts/line_chart.html."""
    found = client.rollout(number(selection, "rollout"))
    q = level_of(found, metric)
    if q is None or found.started_at is None:
        return shown(drawn([], 0.0, 1.0, 1.0, []), "", metric=metric, count=0)
    of = span_of(found, selection)
    asked: dict[str, Any] = {"step": of.step, **of.span}
    compared = [arm for arm in arms_of(found) if arm.nodes]
    answers = [client.quantiles(metric, (q,), node=arm.nodes, **asked) for arm in compared]
    lines = [Line(f"{arm.name} p{100 * q:g}", _points(one)) for arm, one in zip(compared, answers, strict=True)]
    start, end = of.range.at(of.now)
    curves = drawn(lines, start.timestamp(), end.timestamp(), of.step_s, marks_of(found))
    told = None if found.judging_since is None else beside(lines, found.judging_since)
    return shown(
        curves if told is None else replace(curves, sentence=told),
        api_call("quantiles", {"metric": metric, "q": [q], NODE.label: found.canary_nodes[:MOST_NODES], **asked}),
        metric=metric,
        count=sum(series.count for answer in answers for series in answer.series),
        accuracy=error_text(max((answer.relative_error for answer in answers), default=0.0)),
        left_out=", ".join(
            f"{arm.name}: {MOST_NODES} of {arm.whole} nodes" for arm in compared if arm.whole > MOST_NODES
        ),
    )


def beside(lines: Sequence[Line], since: datetime) -> str | None:
    """Such as "Since it is judged, canary p90 is 38 % below the control's: 48 ms against 78 ms." None: not both
    have been seen since. By medians, so that one outlier says nothing; what it means is the verdict's to say."""
    seen = [[value for at, value in line.points if at >= since.timestamp()] for line in lines]
    if len(seen) < BOTH or not all(seen):
        return None
    canary, (usual, its) = lines[-1], (median(values) for values in seen)
    figures, change = f"{seconds(its)} against {seconds(usual)}", Trend(usual, its).change
    if abs(change) < HELD:
        return f"Since it is judged, {canary.name} is as the control's: {figures}."
    share = "" if math.isinf(change) else f"{percent(abs(change))} "
    where = "above" if change > 0 else "below"
    return f"Since it is judged, {canary.name} is {share}{where} the control's: {figures}."


def level_of(rollout: Rollout, metric: str) -> float | None:
    """The quantile that is drawn; None of a metric that the rollout does not judge."""
    plan = rollout.plan
    judged = [] if plan is None else [*plan.compared, *plan.stages]
    levels: Sequence[float] = next((one.levels for one in judged if one.metric == metric), ())
    return max((level for level in levels if level <= HIGHEST_LEVEL), default=min(levels, default=None))


def arms_of(rollout: Rollout) -> list[Arm]:
    """The control first: the last line is drawn over the others."""
    both = {"control": rollout.control_nodes, "canary": rollout.canary_nodes}
    return [Arm(name, nodes[:MOST_NODES], len(nodes)) for name, nodes in both.items()]


def span_of(rollout: Rollout, selection: Selection) -> Selection:
    """From before the start to the end, or now; a part of it where the address says one."""
    if selection.range_said:
        return selection
    assert rollout.started_at is not None
    end = rollout.ended_at or selection.now
    before = min(max((end - rollout.started_at) * BEFORE_PART, BEFORE_LEAST), BEFORE_MOST)
    goes_on = rollout.ended_at is None
    end = max(end, rollout.started_at + BEFORE_LEAST)
    told = TimeRange(_word(rollout.started_at - before), NOW if goes_on and end == selection.now else _word(end))
    return replace(selection, range=told, filters={}, compare=None)


def marks_of(rollout: Rollout) -> list[Mark]:
    """Start, since when it is judged, each wave, and the end."""
    happened: list[tuple[datetime | None, str, str]] = [
        (rollout.started_at, "started", f"revision {rollout.spec.revision} to the canary"),
        (rollout.judging_since, "judging", "canary and control are compared"),
        *(
            (moment_of(wave, "judged_from"), f"wave {place}", ", ".join(wave.get("nodes", [])[:MOST_NODES]))
            for place, wave in enumerate(rollout.evidence.get(WAVES, []), 1)
        ),
        (rollout.ended_at, rollout.phase.value.replace("_", " "), rollout.message),
    ]
    return [Mark(time.timestamp(), "rollout", words, message) for time, words, message in happened if time is not None]


def _points(answer: QuantilesAnswer) -> list[tuple[float, float]]:
    steps = [at for series in answer.series for at in series.points or []]
    return [(at.time.timestamp(), value) for at in steps for value in at.quantiles.values()]


def _word(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
