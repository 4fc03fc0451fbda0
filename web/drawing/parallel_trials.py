"""The trials of a study in parallel coordinates: one axis a knob, its values in the order in which the study keeps
them, the last axis the objective; one line a trial (Inselberg, The Visual Computer 1, 1985).

Pure. Values stand at even distances, as the search goes by their positions. The objective's axis is logarithmic and as
of the trials in their order: slower is above, what could not be measured stands at the top. Lines through one value lie
side by side, so that none hides another.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.contract.knobs import KNOBS, PREFILL_CHUNK_SIZE, canonical_json, largest
from controlplane.contract.reports.declared_knobs import names_in_order
from web.drawing.axes import Axis
from web.drawing.line_chart import Tick
from web.drawing.trial_history import ROOM, UNMEASURED, Tried, kept_words, round_between, what_of
from web.frame.format import knob, seconds

MARGIN = 0.06
"""Of the height, above the first value and below the last."""
SPREAD = 0.5
"""Of the distance between two values, or of `WIDEST` where these are few: how far apart lines of one value lie."""
WIDEST = 0.12
MOST_TICKS = 14
"""Of an axis: of more values every second or third is written."""
WIDE_WORD = 12
"""Signs of a knob's name in a line."""


@dataclass(frozen=True)
class Configuration:
    """One trial with what it was measured under. `won`: it is the winner's configuration, measured again."""

    tried: Tried
    knobs: Mapping[str, Any]
    won: bool = False


@dataclass(frozen=True)
class KnobAxis:
    """`x`: a share of the width; `name`: in lines; `ticks`: shares of the height."""

    x: float
    name: list[str]
    ticks: list[Tick]


@dataclass(frozen=True)
class TrialLine:
    """`what`: "default", "kept", "broke" or "failed", and "won" where it is the winner's; `at`: (x, y), one an axis."""

    what: str
    won: bool
    at: list[tuple[float, float]]
    words: str


@dataclass(frozen=True)
class ParallelTrials:
    """All that the template writes: lines from the least to the most important, drawn in their order."""

    axes: list[KnobAxis]
    lines: list[TrialLine]
    sentence: str
    rows: dict[str, Any]


def parallel_trials(
    trials: Sequence[Configuration], objective: str, order: Mapping[str, Sequence[Any]] | None = None
) -> ParallelTrials | None:
    """`order`: a knob's values as the study keeps them; what it does not name is put in the order of its effect. None
    where nothing was measured, or no two trials differ.
    """
    known = [one.tried.objective_s for one in trials if one.tried.objective_s]
    names = names_in_order(name for one in trials for name in one.knobs)
    values = {name: _values(name, trials, (order or {}).get(name, ())) for name in names}
    values = {name: of for name, of in values.items() if len({_text(one.knobs.get(name)) for one in trials}) > 1}
    if not known or not values:
        return None
    places = [(at + 0.5) / (len(values) + 1) for at in range(len(values) + 1)]
    took = Axis(math.log(ROOM * max(known)), math.log(min(known) / ROOM))
    lines = []
    for at, one in enumerate(trials):
        aside = 0.0 if len(trials) < 2 else at / (len(trials) - 1) - 0.5
        heights = [_height(of, one.knobs.get(name), aside) for name, of in values.items()]
        heights.append(took.at(math.log(one.tried.objective_s)) if one.tried.objective_s else UNMEASURED)
        what = what_of(one.tried)
        lines.append(TrialLine(what, one.won, list(zip(places, heights, strict=True)), _words(one, values, objective)))
    axes = [KnobAxis(x, _lines(name), _ticks(of)) for x, (name, of) in zip(places, values.items(), strict=False)]
    times = [Tick(took.at(math.log(value)), seconds(value)) for value in round_between(min(known), max(known))]
    return ParallelTrials(
        axes=[*axes, KnobAxis(places[-1], [objective], times)],
        lines=sorted(lines, key=_weight),
        sentence=_sentence(trials, list(values)),
        rows={
            "head": ["trial", *values, objective, "limits"],
            "rows": [_row(one, list(values)) for one in trials],
        },
    )


def _text(value: Any) -> str:
    return canonical_json(value)


def _values(name: str, trials: Sequence[Configuration], kept: Sequence[Any]) -> list[Any]:
    """All that stand on the axis, lowest first. A trial's that the study does not name stand where they belong by
    their effect."""
    found = {_text(value): value for value in kept}
    others = {_text(one.knobs[name]): one.knobs[name] for one in trials if one.knobs.get(name) is not None}
    if set(others) <= set(found):
        return list(found.values())
    return sorted({**found, **others}.values(), key=lambda value: _effect(name, value))


def _effect(name: str, value: Any) -> tuple[float, str]:
    """An unlimited chunk last, a schedule of drafts by its longest; words as they are spelled, the usual one first."""
    if name == PREFILL_CHUNK_SIZE and value == 0:
        return (math.inf, "")
    if isinstance(value, int | float):
        return (float(value), "")
    try:
        return (float(largest(value)), _text(value)) if isinstance(value, list | tuple) else _spelled(name, value)
    except (TypeError, ValueError):  # Whatever a worker may have told.
        return _spelled(name, value)


def _spelled(name: str, value: Any) -> tuple[float, str]:
    return (0.0 if name in KNOBS and value == KNOBS[name].default else 1.0, _text(value))


def _height(values: Sequence[Any], value: Any, aside: float) -> float:
    """Of a trial that does not tell the knob: the top's edge."""
    if value is None:
        return MARGIN / 2
    distance = (1 - 2 * MARGIN) / max(1, len(values) - 1)
    return _place(values, [_text(one) for one in values].index(_text(value))) + aside * SPREAD * min(distance, WIDEST)


def _place(values: Sequence[Any], at: int) -> float:
    """Of the height; the first value is the lowest."""
    return 1 - MARGIN - (1 - 2 * MARGIN) * (at / (len(values) - 1) if len(values) > 1 else 0.5)


def _ticks(values: Sequence[Any]) -> list[Tick]:
    every = math.ceil(len(values) / MOST_TICKS)
    return [Tick(_place(values, at), knob(value)) for at, value in enumerate(values) if at % every == 0]


def _lines(name: str) -> list[str]:
    """ "max_num_batched_tokens" in two lines, as it is read: "max num", "batched tokens"."""
    found = [""]
    for word in name.split("_"):
        longer = f"{found[-1]} {word}".strip()
        if found[-1] and len(longer) > WIDE_WORD:
            found.append(word)
        else:
            found[-1] = longer
    return found


def _weight(line: TrialLine) -> tuple[bool, int]:
    return (line.won, ("failed", "broke", "kept", "default").index(line.what))


def _row(one: Configuration, names: Sequence[str]) -> list[str]:
    told = ["–" if one.knobs.get(name) is None else knob(one.knobs[name]) for name in names]
    return [f"{one.tried.number}{_sign(one)}", *told, seconds(one.tried.objective_s), kept_words(one.tried)]


def _sign(one: Configuration) -> str:
    """What a line is beside its number."""
    signs = ["default"] * (one.tried.of == "default") + ["winner"] * one.won
    return f" ({', '.join(signs)})" if signs else ""


def _words(one: Configuration, values: Mapping[str, Any], objective: str) -> str:
    told = ", ".join(f"{name} {knob(one.knobs[name])}" for name in values if one.knobs.get(name) is not None)
    took = f"{objective} {seconds(one.tried.objective_s)}, limits {kept_words(one.tried)}"
    return f"trial {one.tried.number}{_sign(one)}: {told}: {took}"


def _sentence(trials: Sequence[Configuration], names: Sequence[str]) -> str:
    """Such as "9 trials differ in max_num_seqs and quantization. Trial 4 is the winner's configuration: ..." """
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    said = [f"{len(trials)} trials differ in {listed}."]
    default = next((one for one in trials if one.tried.of == "default"), None)
    winner = next((one for one in trials if one.won), None)
    if winner is not None:
        told = [
            f"{name} {knob(winner.knobs.get(name))}"
            for name in names
            if default is None or _text(winner.knobs.get(name)) != _text(default.knobs.get(name))
        ]
        said.append(f"The winner is trial {winner.tried.number}: {', '.join(told) or 'as the default'}.")
    return " ".join(said)
