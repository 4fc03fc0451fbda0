"""Stacks of parts against each other on one scale: before and during, all requests and the slow ones.

Pure. Guarantee: the difference told of each part is that of the lengths drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from web.drawing.line_chart import Tick
from web.drawing.waterfall import PARTS, Request, Row, waterfalls
from web.frame.format import percent, seconds

SAME = 0.05
"""Less than this share of a difference is none."""
ROUNDING_S = 1e-9
"""Means of what was always the same differ by how their sums were rounded, and no clock tells less."""
LABEL_SHARE = 0.1
"""Of the width: a part that is narrower has no room for its name below it."""


@dataclass(frozen=True)
class Difference:
    """Of one part, in seconds, from the first stack to the one called `against`."""

    part: str
    against: str
    before_s: float
    after_s: float

    @property
    def words(self) -> str:
        more_s = self.after_s - self.before_s
        sign = "+" if more_s >= 0 else "-"
        return f"{seconds(self.before_s)} to {seconds(self.after_s)} ({sign}{seconds(abs(more_s))})"


@dataclass(frozen=True)
class Stack:
    """One stack, with the words of its whole."""

    row: Row
    whole: str
    sentence: str
    differences: list[Difference]


@dataclass(frozen=True)
class StackedBars:
    """All that the template writes. The first stack is the one that the others are compared with. `rows`: {"head",
    "rows"}, seconds by part, to copy."""

    stacks: list[Stack]
    across: list[Tick]
    sentence: str
    rows: dict[str, Any]


def stacked_bars(of: Sequence[Request]) -> StackedBars:
    """Each with its name and its parts in seconds; differences are largest first, and what is equal is left out."""
    chart = waterfalls(of)
    stacks = []
    for request, row in zip(of, chart.rows, strict=True):
        differences = [] if request is of[0] else _differences(of[0], request)
        stacks.append(Stack(row, seconds(_sum(request)), _sentence(of[0], request, differences), differences))
    rows = {
        "head": ["part", *(one.name for one in of)],
        "rows": [
            [part, *(one.parts.get(part) for one in of)] for part in PARTS if any(part in one.parts for one in of)
        ],
    }
    return StackedBars(stacks, chart.across, " ".join(stack.sentence for stack in stacks[1:] or stacks), rows)


def _sum(request: Request) -> float:
    return sum(request.parts.get(part, 0.0) for part in PARTS)


def _differences(first: Request, other: Request) -> list[Difference]:
    pairs = [(part, first.parts.get(part, 0.0), other.parts.get(part, 0.0)) for part in PARTS]
    found = [
        Difference(part, other.name, before_s, after_s)
        for part, before_s, after_s in pairs
        if abs(after_s - before_s) > ROUNDING_S
    ]
    return sorted(found, key=lambda one: -abs(one.after_s - one.before_s))


def _sentence(first: Request, other: Request, differences: Sequence[Difference]) -> str:
    """Such as "during: 1.40 s, 400 ms (40 %) more than before, mostly queue: 300 ms to 700 ms (+400 ms)." """
    before_s, after_s = _sum(first), _sum(other)
    if other is first:
        return f"{first.name}: {seconds(before_s)}."
    more_s = after_s - before_s
    if abs(more_s) <= SAME * before_s or not differences:
        return f"{other.name}: {seconds(after_s)}, about as {first.name}."
    share = f" ({percent(abs(more_s) / before_s)})" if before_s else ""
    most = max(differences, key=lambda one: (one.after_s - one.before_s) * (1 if more_s > 0 else -1))
    how = "more" if more_s > 0 else "less"
    return (
        f"{other.name}: {seconds(after_s)}, {seconds(abs(more_s))}{share} {how} than {first.name}, "
        f"mostly {most.part}: {most.words}."
    )
