"""Two objectives of a study against each other: each configuration a mark, the front joined (Pareto).

Pure. Both axes are logarithmic; less is better in both, so that the best lies at the left and below. The front's line
is a staircase: what lies above it and to the right of it is beaten. What is not measured in both is not drawn.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from web.drawing.axes import Axis
from web.drawing.line_chart import Tick
from web.drawing.trial_history import ROOM, Mark, round_between
from web.frame.format import seconds

Words = Callable[[float], str]


@dataclass(frozen=True)
class Placed:
    """One configuration. `at`: seconds of both objectives, None where not measured; `of`: "default" or "search";
    `ends`: of a member of the front, the interval of each."""

    number: int
    of: str
    at: tuple[float | None, float | None]
    feasible: bool
    in_front: bool = False
    ends: tuple[tuple[float, float], tuple[float, float]] | None = None


@dataclass(frozen=True)
class Side:
    """One axis. `name`: of the objective; `words`: a value as people read it."""

    name: str
    words: Words


@dataclass(frozen=True)
class Stroke:
    """A straight line, in shares of width and height."""

    x: float
    y: float
    to_x: float
    to_y: float


@dataclass(frozen=True)
class ParetoChart:
    """All that the template writes. `marks`: the front's last; `front`: its staircase; `ends`: intervals; `across`,
    `up`: ticks; `names`: of the axes."""

    marks: list[Mark]
    front: list[Stroke]
    ends: list[Stroke]
    across: list[Tick]
    up: list[Tick]
    names: tuple[str, str]
    sentence: str
    rows: dict[str, Any]


def pareto_chart(placed: Sequence[Placed], across: Side, up: Side, *, joined: bool = True) -> ParetoChart | None:
    """`joined`: whether two objectives are all there are; else one may look beaten that is better in a third. None
    where nothing was measured in both."""
    known = [(one, (one.at[0], one.at[1])) for one in placed if one.at[0] and one.at[1]]
    shown = [(one, (x, y)) for one, (x, y) in known if x and y]
    if not shown:
        return None
    values = [[at[side] for _, at in shown] for side in (0, 1)]
    reach = [
        [*values[side], *(end for one, _ in shown if one.ends for end in one.ends[side] if end > 0)] for side in (0, 1)
    ]
    x_axis = Axis(math.log(min(reach[0]) / ROOM), math.log(max(reach[0]) * ROOM))
    y_axis = Axis(math.log(max(reach[1]) * ROOM), math.log(min(reach[1]) / ROOM))

    def x(value: float) -> float:
        return x_axis.at(math.log(value))

    def y(value: float) -> float:
        return y_axis.at(math.log(value))

    marks = [Mark(x(at[0]), y(at[1]), _what(one), _words(one, at, across, up)) for one, at in shown]
    members = sorted({at for one, at in shown if one.in_front})
    stairs = [
        stroke
        for (left, top), (right, low) in pairwise(members)
        for stroke in (Stroke(x(left), y(top), x(right), y(top)), Stroke(x(right), y(top), x(right), y(low)))
    ]
    ends = [
        stroke
        for one, at in shown
        if one.ends
        for stroke in (
            Stroke(x(one.ends[0][0]), y(at[1]), x(one.ends[0][1]), y(at[1])),
            Stroke(x(at[0]), y(one.ends[1][0]), x(at[0]), y(one.ends[1][1])),
        )
    ]
    return ParetoChart(
        marks=sorted(marks, key=lambda mark: ORDER.index(mark.what)),
        front=stairs if joined else [],
        ends=ends,
        across=[Tick(x(value), seconds(value)) for value in _round(reach[0])],
        up=[Tick(y(value), seconds(value)) for value in _round(reach[1])],
        names=(across.name, up.name),
        sentence=_sentence(placed, across, up),
        rows={
            "head": ["trial", across.name, up.name, "limits", "front"],
            "rows": [
                [
                    f"{one.number}{' (default)' if one.of == 'default' else ''}",
                    *(
                        "–" if value is None else side.words(value)
                        for side, value in zip((across, up), one.at, strict=True)
                    ),
                    "not measured" if one.at[0] is None else "kept" if one.feasible else "broken",
                    "yes" if one.in_front else "no",
                ]
                for one in placed
            ],
        },
    )


FINER = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
"""Steps of an axis that spans little."""


def _round(reach: Sequence[float]) -> list[float]:
    found = round_between(min(reach), max(reach))
    return found if len(found) > 2 else round_between(min(reach), max(reach), FINER)


ORDER = ("broke", "kept", "default", "front")
"""What is drawn first lies below."""


def _what(one: Placed) -> str:
    if one.of == "default":
        return "default"
    if one.in_front:
        return "front"
    return "kept" if one.feasible else "broke"


def _words(one: Placed, at: tuple[float, float], across: Side, up: Side) -> str:
    name = "the default" if one.of == "default" else f"trial {one.number}"
    front = ", on the front" if one.in_front else f", limits {'kept' if one.feasible else 'broken'}"
    return f"{name}: {across.name} {across.words(at[0])}, {up.name} {up.words(at[1])}{front}"


def _sentence(placed: Sequence[Placed], across: Side, up: Side) -> str:
    """Such as "3 of 9 configurations are on the front, from ... (trial 4) to ... (trial 2). The default is beaten." """
    front = sorted((one.at[0] or 0.0, one.at[1] or 0.0, one.number) for one in placed if one.in_front)
    if not front:
        return f"None of {len(placed)} configurations likely keeps the limits."

    def end(place: int) -> str:
        x, y, number = front[place]
        return f"{across.name} {across.words(x)} with {up.name} {up.words(y)} (trial {number})"

    many = f"{len(front)} of {len(placed)} configurations {'is' if len(front) == 1 else 'are'} on the front"
    said = [f"{many}: {end(0)}." if len(front) == 1 else f"{many}, from {end(0)} to {end(-1)}."]
    default = next((one for one in placed if one.of == "default"), None)
    if default is not None:
        said.append("The default is one of them." if default.in_front else "The default is not.")
    return " ".join(said)
