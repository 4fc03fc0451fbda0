"""A chart of lines over time: its paths, grid, marks and the values that its cursor reads out.

Pure, but that its clock is the one that the page is shown in. The plot is `WIDTH` by `HEIGHT` units and is stretched to
its card; text stands beside it at shares of the width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from web.drawing.axes import Axis, clock_words, time_ticks, value_ticks
from web.drawing.curves import Points, bars, layers, path
from web.drawing.mark_labels import NARROW_PX, Label, labels_of
from web.drawing.trends import HELD, sentence, trend_of
from web.drawing.units import SECONDS, Unit
from web.frame.format import moment, seconds, zone_shown

WIDTH, HEIGHT = 1000.0, 180.0
STYLES = 6
"""Kinds of line that the page's style knows."""
STRONGEST = 3
"""The style of the strongest, a full line: the last of few lines has it, as p99 has."""


@dataclass(frozen=True)
class Line:
    """One line: its name and its points, in the chart's unit: seconds of latency, as a rule."""

    name: str
    points: Points


@dataclass(frozen=True)
class Mark:
    """Something that happened at `time_s`: an alert, a rollout, a revision. `words` are short, `message` is whole."""

    time_s: float
    kind: str
    words: str
    message: str


@dataclass(frozen=True)
class Band:
    """Values from `low` to `high` that are usual, over the whole span."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class Tick:
    """A line of the grid at `share` (0 to 1) of its axis, from the left or from the top."""

    share: float
    words: str


@dataclass(frozen=True)
class DrawnLine:
    """`look`: its classes in the page's style."""

    name: str
    look: str
    path: str


@dataclass(frozen=True)
class DrawnMark:
    """`when`: it happened, for a reader. `label`: where its words stand; None where there is no room for them."""

    share: float
    kind: str
    when: str
    words: str
    message: str
    label: Label | None


@dataclass(frozen=True)
class DrawnBand:
    """Shares of the plot's height, from the top."""

    name: str
    top: float
    height: float


@dataclass(frozen=True)
class LineChart:
    """All that the template writes. `values`: times and each line's values at them, None where it has none."""

    lines: list[DrawnLine]
    up: list[Tick]
    across: list[Tick]
    marks: list[DrawnMark]
    sentence: str
    values: dict[str, Any]
    band: DrawnBand | None = None


def drawn(
    lines: Sequence[Line],
    start_s: float,
    end_s: float,
    step_s: float,
    marks: Sequence[Mark],
    unit: Unit = SECONDS,
    top: float = 0.0,
    band: Band | None = None,
) -> LineChart:
    """The chart from `start_s` to `end_s`. Its sentence is of the last line: the tail. `top`: its axis goes up to this
    at least, so that charts beside each other have one scale."""
    highest = max((value for line in lines for _, value in line.points), default=0.0)
    highest = max(highest, top, 0.0 if band is None else band.high)
    ticks = value_ticks(highest)
    across, up = Axis(start_s, end_s, 0.0, WIDTH), Axis(0.0, ticks[-1], HEIGHT, -HEIGHT)
    shown = [
        DrawnLine(line.name, f"curve line-{place % STYLES + 1}", path(line.points, across, up, step_s))
        for place, line in enumerate(lines, max(0, STRONGEST - len(lines)))
    ]
    said = sentence(lines[-1].name, lines[-1].points, unit) if lines else sentence("", ())
    chart = _framed(shown, lines, said, ticks, start_s, end_s, step_s, marks, unit)
    if band is None:
        return chart
    share = Axis(0.0, ticks[-1], 1.0, -1.0)
    return replace(chart, band=DrawnBand(band.name, share.at(band.high), share.at(band.low) - share.at(band.high)))


def stacked(parts: Sequence[Line], start_s: float, end_s: float, step_s: float, marks: Sequence[Mark]) -> LineChart:
    """Parts that make up a whole, on each other, the first at the foot. All have their values at the same times.

    Its sentence is of the whole, and of the part that changed it most.
    """
    times = [time for time, _ in parts[0].points] if parts else []
    edges = layers([[value for _, value in part.points] for part in parts])
    whole = [(time, high) for time, (_, high) in zip(times, edges[-1] if edges else [], strict=True)]
    ticks = value_ticks(max((value for _, value in whole), default=0.0))
    across, up = Axis(start_s, end_s, 0.0, WIDTH), Axis(0.0, ticks[-1], HEIGHT, -HEIGHT)
    shown = [
        DrawnLine(part.name, f"layer part-{part.name}", bars(times, layer, across, up, step_s))
        for part, layer in zip(parts, edges, strict=True)
    ]
    return _framed(shown, parts, stack_sentence(parts, whole), ticks, start_s, end_s, step_s, marks)


def stack_sentence(parts: Sequence[Line], whole: Points) -> str:
    """Such as "The mean rose by 34 %, from 1.20 s to 1.61 s; mostly queue (300 ms to 700 ms)." """
    said = sentence("The mean", whole)
    if (trend := trend_of(whole)) is None or abs(trend.change) < HELD:
        return said
    up = trend.after_s > trend.before_s
    moved = [(part.name, of) for part in parts if (of := trend_of(part.points)) is not None]
    name, most = max(moved, key=lambda one: (one[1].after_s - one[1].before_s) * (1 if up else -1))
    return f"{said[:-1]}; mostly {name} ({seconds(most.before_s)} to {seconds(most.after_s)})."


def _framed(
    shown: list[DrawnLine],
    lines: Sequence[Line],
    said: str,
    ticks: list[float],
    start_s: float,
    end_s: float,
    step_s: float,
    marks: Sequence[Mark],
    unit: Unit = SECONDS,
) -> LineChart:
    across, span_s = Axis(start_s, end_s), end_s - start_s
    return LineChart(
        lines=shown,
        up=[Tick(1 - value / ticks[-1], unit.words(value) if value else "0") for value in ticks],
        across=clock_ticks(across, span_s),
        marks=placed(marks, start_s, end_s),
        sentence=said,
        values=values_of(lines, start_s, end_s, ticks[-1])
        | {"unit": unit.name, "step_s": step_s, "marks": told_marks(marks, start_s, end_s)},
    )


def clock_ticks(across: Axis, span_s: float) -> list[Tick]:
    """Of a time axis whose length is its width, on the clock that the page is shown in."""
    zone = zone_shown()
    ticks = time_ticks(across.low, across.high, zone=zone)
    return [Tick(across.at(time) / across.length, clock_words(time, span_s, zone)) for time in ticks]


def placed(marks: Sequence[Mark], start_s: float, end_s: float, wide_px: float = NARROW_PX) -> list[DrawnMark]:
    """Those within the span, by time. `wide_px`: how wide the plot is on a desktop, for the marks' words."""
    axis = Axis(start_s, end_s)
    within = sorted((mark for mark in marks if start_s <= mark.time_s <= end_s), key=lambda mark: mark.time_s)
    labels = labels_of([(axis.at(mark.time_s), mark.kind, mark.words) for mark in within], wide_px)
    return [
        DrawnMark(
            axis.at(mark.time_s),
            mark.kind,
            moment(datetime.fromtimestamp(mark.time_s, UTC)),
            mark.words,
            mark.message,
            label,
        )
        for mark, label in zip(within, labels, strict=True)
    ]


def told_marks(marks: Sequence[Mark], start_s: float, end_s: float) -> list[list[str]]:
    """[moment, words and message] of each within the span, by time: for the chart's table."""
    within = sorted((mark for mark in marks if start_s <= mark.time_s <= end_s), key=lambda mark: mark.time_s)
    return [[_moment(mark.time_s), f"{mark.words}: {mark.message}"] for mark in within]


def values_of(lines: Sequence[Line], start_s: float, end_s: float, top: float) -> dict[str, Any]:
    """{"start", "end", "top", "times": [RFC 3339], "lines": [{"name", "y": [seconds or None]}]}, for the script.

    Of more times than the plot has columns: in each column the one at which the last line, the tail, is highest.
    """
    times = sorted({time for line in lines for time, _ in line.points})
    if len(times) > WIDTH:
        across, tail = Axis(start_s, end_s, 0.0, WIDTH), dict(lines[-1].points)
        columns = groupby(times, lambda time: math.floor(across.at(time)))
        times = [max(column, key=lambda time: tail.get(time, -math.inf)) for _, column in columns]
    by_line = [dict(line.points) for line in lines]
    return {
        "start": _moment(start_s),
        "end": _moment(end_s),
        "top": top,
        "times": [_moment(time) for time in times],
        "lines": [
            {"name": line.name, "y": [None if (y := known.get(time)) is None else float(f"{y:.6g}") for time in times]}
            for line, known in zip(lines, by_line, strict=True)
        ],
    }


def _moment(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat()
