"""Waterfalls of requests on one common scale: where each one's time went, in seconds since it arrived.

Pure. Guarantee: the same length is the same time in every request of a drawing; parts never overlap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.contract.metrics import E2E, REQUEST_PARTS, UNACCOUNTED
from web.drawing.axes import Axis, value_ticks
from web.drawing.line_chart import Tick
from web.frame.format import percent, seconds

PARTS = (*(part.short for part in REQUEST_PARTS), UNACCOUNTED.short)
"""In the order in which they pass."""

Parts = Mapping[str, float]
"""Seconds by part, with `e2e` or without; what was not told is left out."""


@dataclass(frozen=True)
class Request:
    """One request: what it is called, and its parts."""

    name: str
    parts: Parts


@dataclass(frozen=True)
class Bar:
    """A part. `share` and `width` are of the whole scale, 0 to 1; `ghost`: the usual width, None: unknown."""

    part: str
    share: float
    width: float
    ghost: float | None
    took: str
    usually: str

    @property
    def words(self) -> str:
        return f"{self.part} {self.took}" + ("" if self.ghost is None else f", usually {self.usually}")


@dataclass(frozen=True)
class Row:
    """A request as it is drawn. `usual`: bars of the usual request, behind and laid end to end; empty: unknown."""

    name: str
    bars: list[Bar]
    usual: list[Bar]
    sentence: str


@dataclass(frozen=True)
class Waterfalls:
    """All that the template writes."""

    rows: list[Row]
    across: list[Tick]


def waterfalls(requests: Sequence[Request], usual: Parts | None = None) -> Waterfalls:
    """`requests` on one scale, behind each the `usual` parts: the fleet's median, part by part."""
    known = [request.parts for request in requests] + ([usual] if usual else [])
    ticks = value_ticks(max((_whole(parts) for parts in known), default=0.0))
    axis = Axis(0.0, ticks[-1])
    behind = _bars(usual, axis, None) if usual else []
    rows = [
        Row(request.name, _bars(request.parts, axis, usual), behind, _sentence(request, usual)) for request in requests
    ]
    return Waterfalls(rows, [Tick(axis.at(tick), seconds(tick) if tick else "0") for tick in ticks])


def _whole(parts: Parts) -> float:
    """Seconds that the drawing of `parts` takes: their sum, or all the time where that was told to be longer."""
    return max(parts.get(E2E.short, 0.0), sum(parts.get(part, 0.0) for part in PARTS))


def _bars(parts: Parts, axis: Axis, usual: Parts | None) -> list[Bar]:
    found, before_s = [], 0.0
    for part in PARTS:
        length_s, usual_s = parts.get(part, 0.0), None if usual is None else usual.get(part)
        if length_s <= 0 and not usual_s:
            continue
        ghost = None if usual_s is None else axis.at(usual_s)
        found.append(Bar(part, axis.at(before_s), axis.at(length_s), ghost, seconds(length_s), seconds(usual_s)))
        before_s += length_s
    return found


def _sentence(request: Request, usual: Parts | None) -> str:
    """Such as "2.40 s, mostly queue: 1.60 s (67 %), usually 100 ms." """
    whole_s = _whole(request.parts)
    if whole_s <= 0:
        return "Its parts were not told."
    most = max(PARTS, key=lambda part: request.parts.get(part, 0.0))
    most_s = request.parts.get(most, 0.0)
    if most_s <= 0:
        return f"{seconds(whole_s)}; its parts were not told."
    against = "" if usual is None or most not in usual else f", usually {seconds(usual[most])}"
    return f"{seconds(whole_s)}, mostly {most}: {seconds(most_s)} ({percent(most_s / whole_s)}){against}."
