"""A verdict bar: how many times as long something takes, with its interval, against the bounds it is judged by.

Pure. It draws a verdict that others reached, and judges nothing itself. The axis is logarithmic: half and double are
equally far from the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from web.drawing.axes import Axis
from web.drawing.line_chart import Tick
from web.frame.format import percent

RATIOS = (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
APART = 0.13
"""Of the width, between two ticks' words."""
ROOM = 1.15
"""The axis reaches at least so many times beyond whatever it shows."""
MOST_REACH = 3.0
"""Of bars on one scale: an interval that is still wide shall not make all the others dots."""


@dataclass(frozen=True)
class Judged:
    """A ratio of durations (1: the same, 2: twice as long) with its interval, and the verdict reached on it.

    Below `better_below` is better, from there to `not_worse_to` is not worse, above is worse.
    """

    ratio: float
    low: float
    high: float
    not_worse_to: float
    verdict: str
    better_below: float = 1.0


@dataclass(frozen=True)
class Zone:
    """What lies here counts as `name`. Places are shares of the width, 0 to 1."""

    name: str
    share: float
    width: float


@dataclass(frozen=True)
class VerdictBar:
    """All that the template writes. What is drawn is within the drawing; `open_low`, `open_high`: the interval goes on.
    `rows`: {"head", "rows"}, its figures in words, to read."""

    zones: list[Zone]
    low: float
    high: float
    ratio: float
    open_low: bool
    open_high: bool
    across: list[Tick]
    verdict: str
    sentence: str
    rows: dict[str, Any]


def verdict_bar(judged: Judged, name: str = "latency", reach: float | None = None) -> VerdictBar:
    """An end of the interval may be 0 or infinite: open. `reach`: the axis goes from 1 / reach to it, as of other bars
    beside it (`shared_reach`). Raises `ValueError` for ratios below 0 or out of order."""
    if not 0 <= judged.low <= judged.ratio <= judged.high or judged.ratio <= 0:
        raise ValueError(f"wants 0 <= low <= ratio <= high, not {judged.low}, {judged.ratio}, {judged.high}")
    if not 0 < judged.better_below <= judged.not_worse_to:
        raise ValueError(f"wants 0 < better_below <= not_worse_to, not {judged.better_below}, {judged.not_worse_to}")
    reach = ROOM * _furthest(judged) if reach is None else reach
    open_low, open_high = judged.low < 1 / reach, judged.high > reach
    axis = Axis(-math.log(reach), math.log(reach))

    def at(ratio: float) -> float:
        return min(max(axis.at(math.log(ratio)), 0.0), 1.0)

    edges = [0.0, at(judged.better_below), at(judged.not_worse_to), 1.0]
    zones = [
        Zone(name, low, high - low)
        for name, low, high in zip(("better", "not worse", "worse"), edges, edges[1:], strict=False)
    ]
    return VerdictBar(
        zones=[zone for zone in zones if zone.width > 0],
        low=0.0 if open_low else at(judged.low),
        high=1.0 if open_high else at(judged.high),
        ratio=at(judged.ratio),
        open_low=open_low,
        open_high=open_high,
        across=_ticks(axis),
        verdict=judged.verdict,
        sentence=_sentence(judged, name),
        rows=_rows(judged),
    )


def shared_reach(judged: Sequence[Judged]) -> float:
    """How far an axis goes on which all of them stand; at most `MOST_REACH`."""
    return min(max((ROOM * _furthest(one) for one in judged), default=MOST_REACH), MOST_REACH)


def _furthest(judged: Judged) -> float:
    """The larger of the largest ratio shown and one over the smallest."""
    shown = [judged.ratio, judged.better_below, judged.not_worse_to]
    shown += [end for end in (judged.low, judged.high) if end > 0 and not math.isinf(end)]
    return max(max(shown), 1 / min(shown))


def _ticks(axis: Axis) -> list[Tick]:
    """From the middle outwards, where there is room for their words."""
    found: list[tuple[float, float]] = []
    for ratio in sorted(RATIOS, key=lambda ratio: (abs(math.log(ratio)) > 0, -abs(math.log(ratio)))):
        share = axis.at(math.log(ratio))
        if APART / 2 <= share <= 1 - APART / 2 and all(abs(share - other) >= APART for other, _ in found):
            found.append((share, ratio))
    return [Tick(share, f"{ratio:g}×") for share, ratio in sorted(found)]


def _sentence(judged: Judged, name: str) -> str:
    """Such as "Worse: latency is 12 % higher (3 % to 22 % higher); up to 5 % higher counts as not worse." """
    verdict = judged.verdict.replace("_", " ").capitalize()
    bound = f"up to {_change(judged.not_worse_to)} counts as not worse"
    return f"{verdict}: {name} is {interval_words(judged)}; {bound}."


def interval_words(judged: Judged) -> str:
    """Such as "12 % higher (3 % higher to 22 % higher)"."""
    return f"{_change(judged.ratio)} ({_either_change(judged.low)} to {_either_change(judged.high)})"


def _rows(judged: Judged) -> dict[str, Any]:
    """Each figure that is drawn, as a ratio and as a change."""
    bound = "not worse up to" if judged.not_worse_to > judged.better_below else "better below, worse above"
    figures = {
        "estimate": judged.ratio,
        "interval from": judged.low,
        "interval to": judged.high,
        **({"better below": judged.better_below} if judged.not_worse_to > judged.better_below else {}),
        bound: judged.not_worse_to,
    }
    rows = [[name, _times(ratio), _either_change(ratio)] for name, ratio in figures.items()]
    return {"head": ["figure", "ratio", "change"], "rows": rows}


def _times(ratio: float) -> str:
    """To four digits: "1.12×"."""
    return "no bound" if ratio <= 0 or math.isinf(ratio) else f"{ratio:.4g}×"


def _either_change(ratio: float) -> str:
    """As `_change`; of an end that is open: "any amount lower"."""
    if ratio <= 0:
        return "any amount lower"
    return "any amount higher" if math.isinf(ratio) else _change(ratio)


def _change(ratio: float) -> str:
    """Of 1.12: "12 % higher"."""
    change = ratio - 1
    if abs(change) < 0.0005:
        return "the same"
    whole = abs(100 * change - round(100 * change)) < 0.05
    digits = 0 if whole or abs(change) >= 0.0995 else 1
    return f"{percent(abs(change), digits)} {'higher' if change > 0 else 'lower'}"
