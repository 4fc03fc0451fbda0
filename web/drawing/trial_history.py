"""The trials of a study in their order: how long the objective took in each, which kept the limits, the best so far.

Pure. The axis is logarithmic: twice as slow is as far above as half as slow is below. What could not be measured
stands at the top.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from web.drawing.axes import Axis
from web.drawing.line_chart import Tick
from web.frame.format import seconds

ROOM = 1.1
"""The axis reaches so many times beyond the slowest and the fastest."""
MOST_TICKS = 5
UNMEASURED = 0.03
"""How far from the top what was not measured stands."""


@dataclass(frozen=True)
class Tried:
    """One trial. `objective_s`: None where nothing was measured; `of`: "default" or "search"."""

    number: int
    of: str
    objective_s: float | None
    feasible: bool


@dataclass(frozen=True)
class Mark:
    """Where a trial is drawn, in shares of width and height, and as what: "default", "kept", "broke" or "failed"."""

    x: float
    y: float
    what: str
    words: str


@dataclass(frozen=True)
class Step:
    """The best so far, between two trials."""

    x: float
    until: float
    y: float


@dataclass(frozen=True)
class TrialHistory:
    marks: list[Mark]
    best: list[Step]
    up: list[Tick]
    sentence: str
    rows: dict[str, Any]


def trial_history(trials: Sequence[Tried], objective: str) -> TrialHistory | None:
    """Of trials in their order; None before the first measurement."""
    known = [one.objective_s for one in trials if one.objective_s]
    if not known:
        return None
    axis = Axis(math.log(ROOM * max(known)), math.log(min(known) / ROOM))

    def y(one: Tried) -> float:
        return axis.at(math.log(one.objective_s)) if one.objective_s else UNMEASURED

    places = [(place + 0.5) / len(trials) for place in range(len(trials))]
    marks = [Mark(x, y(one), what_of(one), _words(one, objective)) for x, one in zip(places, trials, strict=True)]
    return TrialHistory(
        marks=marks,
        best=_best(trials, places, y),
        up=[Tick(axis.at(math.log(value)), seconds(value)) for value in round_between(min(known), max(known))],
        sentence=_sentence(trials, objective),
        rows={
            "head": ["trial", "kind", objective, "limits"],
            "rows": [[str(one.number), one.of, seconds(one.objective_s), kept_words(one)] for one in trials],
        },
    )


def what_of(one: Tried) -> str:
    """As what it is drawn."""
    if not one.objective_s:
        return "failed"
    if one.of == "default":
        return "default"
    return "kept" if one.feasible else "broke"


def kept_words(one: Tried) -> str:
    """Of the limits."""
    return "not measured" if not one.objective_s else "kept" if one.feasible else "broken"


def _words(one: Tried, objective: str) -> str:
    name = "the default" if one.of == "default" else f"trial {one.number}"
    return f"{name}: {objective} {seconds(one.objective_s)}, limits {kept_words(one)}"


def _best(trials: Sequence[Tried], places: Sequence[float], y: Callable[[Tried], float]) -> list[Step]:
    """Of those that kept the limits, from each trial to the next."""
    found: list[Step] = []
    best: Tried | None = None
    for place, one in enumerate(trials):
        if one.feasible and one.objective_s and (best is None or one.objective_s < (best.objective_s or math.inf)):
            best = one
        if best is not None:
            until = places[place + 1] if place + 1 < len(places) else 1.0
            found.append(Step(places[place], until, y(best)))
    return found


def round_between(low: float, high: float, steps: Sequence[float] = (1, 2, 5)) -> list[float]:
    """Round values between the two: such steps times a power of ten, every second or third where they are many."""
    first = math.floor(math.log10(low))
    found = [step * 10.0**power for power in range(first, math.ceil(math.log10(high)) + 1) for step in steps]
    within = [value for value in found if low / ROOM <= value <= high * ROOM]
    return within[:: math.ceil(len(within) / MOST_TICKS)] if within else []


def _sentence(trials: Sequence[Tried], objective: str) -> str:
    default = next((one for one in trials if one.of == "default"), None)
    others = [one for one in trials if one.of != "default"]
    kept = [one for one in others if one.feasible and one.objective_s]
    said = [] if default is None else [f"The default took {seconds(default.objective_s)} at {objective}."]
    if others:
        said.append(f"{len(kept)} of {len(others)} other trials kept the limits" + ("." if not kept else ";"))
    if kept:
        best = min(kept, key=lambda one: one.objective_s or math.inf)
        said.append(f"the fastest of these took {seconds(best.objective_s)} (trial {best.number}), in one run each.")
    return " ".join(said)
