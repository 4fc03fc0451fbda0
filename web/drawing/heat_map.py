"""A heat map: how many requests took how long, over time; latency runs upwards on a logarithmic axis.

Pure, but that its clock is the page's. Guarantees: counts are those of the API's answer, none is lost or made up; a
colour stands for a range of counts, which the legend names; the sentence's ranges end at edges of rows, where counts
are exact.
"""

import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controlplane.contract.bodies.telemetry import HeatmapAnswer
from web.drawing.axes import Axis, clock_words, whole_steps
from web.drawing.curves import path
from web.drawing.line_chart import (
    HEIGHT,
    STYLES,
    WIDTH,
    DrawnLine,
    DrawnMark,
    Line,
    Mark,
    Tick,
    clock_ticks,
    placed,
    told_marks,
)
from web.drawing.mark_labels import NARROW_PX, WIDE_PX
from web.frame.format import percent, seconds, zone_shown

LEVELS = 7
"""Colours of the scale (`--heat-1` to `--heat-7`)."""
MOST_TICKS = 7
MOST, TAIL = 0.1, 2.0
"""Most requests: all but this share at either end. Their tail: above this many times the upper end."""
NEW_TAIL = 0.95
"""A tail is told to have begun where this share of it lies behind, if that was not at the start."""
SINCE_SPAN_S = 3600.0
"""When it began is told as on an axis of at least so long: to the minute."""


@dataclass(frozen=True)
class Rows:
    """Rows between rising edges (seconds), each as high as the others."""

    edges: Sequence[float]

    def at(self, value: float) -> float:
        """Rows from the lowest edge up to `value`; one beyond the ends stands at the end."""
        if value <= self.edges[0]:
            return 0.0
        if value >= self.edges[-1]:
            return len(self.edges) - 1.0
        row = bisect_left(self.edges, value) - 1
        low, high = self.edges[row], self.edges[row + 1]
        return row + (math.log(value / low) / math.log(high / low) if low > 0 else value / high)


@dataclass(frozen=True)
class Level:
    """One colour of the scale: it stands for counts from `least`, and for as many as `words` say."""

    least: int
    words: str


@dataclass(frozen=True)
class Scale:
    """Rows `low` to `high` - 1 of an answer, and the `most` that a cell counts: heat maps of one scale can be compared
    by eye, if their answers have the same edges."""

    low: int
    high: int
    most: int


@dataclass(frozen=True)
class ChosenBox:
    """A part of the map: seconds since 1970, and seconds of latency."""

    start_s: float
    end_s: float
    low: float
    high: float


@dataclass(frozen=True)
class DrawnBox:
    """Its upper left corner and size, as shares of the map."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class HeatMap:
    """All that the template writes. `columns` and `rows` are the picture's size in cells, `data` is for the script."""

    columns: int
    rows: int
    lines: list[DrawnLine]
    up: list[Tick]
    across: list[Tick]
    marks: list[DrawnMark]
    levels: list[Level]
    sentence: str
    count: int
    data: str
    box: DrawnBox | None = None


def heat_map(
    answer: HeatmapAnswer,
    lines: Sequence[Line] = (),
    marks: Sequence[Mark] = (),
    noun: str = "requests",
    box: ChosenBox | None = None,
    scale: Scale | None = None,
) -> HeatMap:
    """Of all series of `answer` together, with `lines` (quantiles in seconds) and `marks` over it, and the `box` that
    was chosen. `scale`: of several beside each other; without, it has its own, and the page's width."""
    wide_px = WIDE_PX if scale is None else NARROW_PX
    start_s, end_s, step_s = answer.start.timestamp(), answer.end.timestamp(), answer.step_s
    cells = _cells(answer)
    scale = scale or scale_of(answer)
    low = scale.low
    edges = answer.edges[low : scale.high + 1] if scale.high else []
    first_s = min((time for time, _ in cells), default=start_s)
    origin_s, last_s = whole_steps(start_s, end_s, step_s, first_s)
    columns = round((last_s - origin_s) / step_s)
    grid = {(round((time - origin_s) / step_s), row - low): count for (time, row), count in cells.items()}
    axis, across = Rows(edges or [0.0, 1.0]), Axis(origin_s, last_s, 0.0, WIDTH)
    up = Axis(0.0, len(axis.edges) - 1.0, HEIGHT, -HEIGHT)
    ticks, levels = latency_ticks(edges), levels_of(scale.most)
    return HeatMap(
        columns=columns,
        rows=len(axis.edges) - 1,
        lines=[
            DrawnLine(line.name, f"curve line-{place % STYLES + 1}", _line(line, axis, across, up, step_s))
            for place, line in enumerate(lines)
        ],
        up=[Tick(1 - axis.at(tick) / (len(axis.edges) - 1), seconds(tick)) for tick in ticks],
        across=clock_ticks(across, end_s - start_s),
        marks=placed(marks, across.low, across.high, wide_px),
        levels=levels,
        sentence=sentence(grid, edges, origin_s, step_s, noun),
        count=sum(cells.values()),
        box=None if box is None else _placed(box, axis, across),
        data=_data(
            grid,
            edges,
            origin_s,
            step_s,
            levels,
            [axis.at(tick) for tick in ticks],
            noun,
            told_marks(marks, across.low, across.high),
        ),
    )


def scale_of(*answers: HeatmapAnswer) -> Scale:
    """The rows that any of them uses, and the fullest cell of all. Their edges are the same."""
    cells = [_cells(one) for one in answers]
    used = [row for of in cells for _, row in of]
    most = max((count for of in cells for count in of.values()), default=0)
    return Scale(min(used, default=0), max(used, default=-1) + 1, most)


def _placed(box: ChosenBox, rows: Rows, across: Axis) -> DrawnBox | None:
    """None where it lies outside of the map's span."""
    left, right = (min(max(across.at(time) / WIDTH, 0.0), 1.0) for time in (box.start_s, box.end_s))
    low, high = (rows.at(value) / (len(rows.edges) - 1) for value in (box.low, box.high))
    return DrawnBox(left, 1.0 - high, right - left, high - low) if right > left else None


def latency_ticks(edges: Sequence[float]) -> list[float]:
    """Round latencies between the edges: 1, 2 and 5 of each power of ten, or fewer where those are too many."""
    if len(edges) < 2:
        return []
    low = edges[0] or edges[1] / 2
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(edges[-1])) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= edges[-1]]
        if len(ticks) <= MOST_TICKS:
            return ticks
    return ticks[:: math.ceil(len(ticks) / MOST_TICKS)]


def levels_of(most: int) -> list[Level]:
    """The scale of counts from 1 to `most`: each colour begins at about the same multiple of the one before."""
    least = sorted({math.ceil(most ** (place / LEVELS) - 1e-9) for place in range(LEVELS)}) if most else []
    least = [one for place, one in enumerate(least) if place == 0 or one <= most]
    ends = [after - 1 for after in least[1:]] + [most]
    return [
        Level(begin, f"{begin:,}" if begin == end else f"{begin:,} to {end:,}")
        for begin, end in zip(least, ends, strict=bool(least))
    ]


def sentence(
    grid: dict[tuple[int, int], int], edges: Sequence[float], origin_s: float, step_s: float, noun: str
) -> str:
    """Such as "Most requests took 80 ms to 200 ms; 3 % took over 1.00 s, nearly all since 14:05." """
    if not grid:
        return "No data in this span."
    by_row = Counter[int]()
    for (_, row), count in grid.items():
        by_row[row] += count
    count = by_row.total()
    low, high = _row_at(by_row, MOST * count), _row_at(by_row, (1 - MOST) * count)
    said = f"Most {noun} took {seconds(edges[low])} to {seconds(edges[high + 1])}"
    tail_from = next((row for row in range(len(edges) - 1) if edges[row] >= TAIL * edges[high + 1]), len(edges))
    tail = {cell: count for cell, count in grid.items() if cell[1] >= tail_from}
    if not tail:
        return f"{said}, none over {seconds(edges[max(by_row) + 1])}."
    share = sum(tail.values()) / count
    words = "under 0.1 %" if share < 0.001 else percent(share, 0 if share >= 0.01 else 1)
    return f"{said}; {words} took over {seconds(edges[tail_from])}{_since(tail, origin_s, step_s, grid)}."


def _since(tail: dict[tuple[int, int], int], origin_s: float, step_s: float, grid: dict[tuple[int, int], int]) -> str:
    """When the tail began; empty where it was there from the first tenth of the data."""
    columns = sorted({column for column, _ in grid})
    behind, needed = 0, NEW_TAIL * sum(tail.values())
    began = columns[-1]
    for column in sorted({column for column, _ in tail}, reverse=True):
        behind += sum(count for (of, _), count in tail.items() if of == column)
        began = column
        if behind >= needed:
            break
    if began <= columns[0] + 0.1 * (columns[-1] - columns[0]):
        return ""
    span_s = max(step_s * (columns[-1] - columns[0]), SINCE_SPAN_S)
    return f", nearly all since {clock_words(origin_s + began * step_s, span_s, zone_shown())}"


def _row_at(by_row: Counter[int], rank: float) -> int:
    """The row in which the value of this rank lies."""
    passed = 0
    for row in sorted(by_row):
        passed += by_row[row]
        if passed >= rank:
            break
    return row


def _cells(answer: HeatmapAnswer) -> Counter[tuple[float, int]]:
    """Counts above zero by (seconds since 1970, row)."""
    found = Counter[tuple[float, int]]()
    for series in answer.series:
        for column in series.columns:
            for row, count in enumerate(column.counts):
                if count:
                    found[column.time.timestamp(), row] += count
    return found


def _line(line: Line, rows: Rows, across: Axis, up: Axis, step_s: float) -> str:
    """Through the middle of its columns."""
    points = [(time + step_s / 2, rows.at(value)) for time, value in line.points]
    return path([point for point in points if across.low <= point[0] <= across.high], across, up, step_s)


def _data(
    grid: dict[tuple[int, int], int],
    edges: Sequence[float],
    origin_s: float,
    step_s: float,
    levels: Sequence[Level],
    ticks: Sequence[float],
    noun: str,
    marks: Sequence[Sequence[str]],
) -> str:
    """JSON: start and step, edges, `marks` (moment, words), `levels` (least counts), `bands` (rows where the table's
    columns part), and `cells` as [column, lowest row, counts upwards]."""
    columns: dict[int, dict[int, int]] = {}
    for (column, row), count in grid.items():
        columns.setdefault(column, {})[row] = count
    rows = max(0, len(edges) - 1)
    told: dict[str, Any] = {
        "start": datetime.fromtimestamp(origin_s, UTC).isoformat(),
        "step_s": step_s,
        "noun": noun,
        "marks": marks,
        "edges": [float(f"{edge:.6g}") for edge in edges],
        "levels": [level.least for level in levels],
        "bands": sorted({0, *(round(tick) for tick in ticks), rows}),
        "cells": [
            [column, min(here), [here.get(row, 0) for row in range(min(here), max(here) + 1)]]
            for column, here in sorted(columns.items())
        ],
    }
    return json.dumps(told, separators=(",", ":"))
