"""Lines of a chart as SVG paths (SVG 2, chapter 9).

Pure. Guarantees: where nothing was measured for longer than one step the line is broken: absent is not zero; of more
points than there are columns to draw them in, each column's first, lowest, highest and last are drawn.
"""

import math
from collections.abc import Sequence
from itertools import groupby

from web.drawing.axes import Axis

Points = Sequence[tuple[float, float]]
"""(seconds since 1970, value), by time."""


def runs(points: Points, step_s: float) -> list[list[tuple[float, float]]]:
    """The points in runs without a gap: each point begins at most one and a half steps after the one before it."""
    found: list[list[tuple[float, float]]] = []
    for point in points:
        if found and point[0] - found[-1][-1][0] <= 1.5 * step_s:
            found[-1].append(point)
        else:
            found.append([point])
    return found


def reduced(points: Points, across: Axis) -> Points:
    """The points that a line through all of them shows, at one column for each unit of `across`: four at most in each.

    Few points come back as they are.
    """
    if len(points) <= abs(across.length):
        return points
    kept = list[tuple[float, float]]()
    for _, column in groupby(points, lambda point: math.floor(across.at(point[0]))):
        here = list(column)
        low, high = (of(range(len(here)), key=lambda place: here[place][1]) for of in (min, max))
        kept += [here[place] for place in sorted({0, low, high, len(here) - 1})]
    return kept


def path(points: Points, across: Axis, up: Axis, step_s: float) -> str:
    """The `d` of one line; a point that stands alone is a dot. Coordinates have one decimal."""
    parts = []
    for run in runs(points, step_s):
        places = [f"{across.at(time):.1f} {up.at(value):.1f}" for time, value in reduced(run, across)]
        parts.append("M" + "L".join(places) + ("h.1" if len(places) == 1 else ""))
    return "".join(parts)


def layers(lines: Sequence[Sequence[float]]) -> list[list[tuple[float, float]]]:
    """Lines of equal length stacked on each other, in their order: for each the (lower, upper) edge at each place."""
    below = [0.0] * (len(lines[0]) if lines else 0)
    stacked = []
    for line in lines:
        above = [low + value for low, value in zip(below, line, strict=True)]
        stacked.append(list(zip(below, above, strict=True)))
        below = above
    return stacked


def bars(times: Sequence[float], edges: Sequence[tuple[float, float]], across: Axis, up: Axis, step_s: float) -> str:
    """The `d` of one layer: at each time a bar as wide as its step, so that a step without data is a gap."""
    return "".join(
        f"M{across.at(time):.1f} {up.at(low):.1f}V{up.at(high):.1f}H{across.at(min(time + step_s, across.high)):.1f}"
        f"V{up.at(low):.1f}Z"
        for time, (low, high) in zip(times, edges, strict=True)
        if high > low
    )
