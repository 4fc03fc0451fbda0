"""Values of a knob that are one step from another (pure).

Guarantee: of numbers a step goes by the ratio at most, though by one at least, and never beyond the range; of choices
to the next one. Up is more of what the knob allows: a chunk size of 0, which is off, stands above all others, where it
acts as the whole token budget does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.knobs import KNOBS, MAX_NUM_BATCHED_TOKENS, PREFILL_CHUNK_SIZE, canonical_json, largest

_NEARLY = 1e-9
"""125 / 1.25 is 100, whatever floating point makes of it."""


@dataclass(frozen=True)
class Reach:
    """How far a knob may go: between two numbers, both included, or by choices where there are some. least: nothing
    below it but 0, which is off."""

    low: int
    high: int
    choices: tuple[Any, ...] = ()
    least: int = 0


def reach_of(name: str, wanted: KnobRange | None, most: int | None = None, least: int = 0) -> Reach:
    """What a study asks for, else all that the knob can be. most, least: what its nodes take while they serve, None:
    any."""
    knob = KNOBS[name]
    assert knob.minimum is not None and knob.maximum is not None  # A weight format is never live.
    high = knob.maximum if most is None else min(knob.maximum, most)
    if wanted is None:
        return Reach(int(knob.minimum), int(high), least=least)
    if wanted.choices is not None:
        choices = tuple(one for one in wanted.choices if largest(one) <= high and not 0 < largest(one) < least)
        return Reach(int(knob.minimum), int(high), choices, least)
    assert wanted.minimum is not None and wanted.maximum is not None  # A range has one of the two forms.
    return Reach(int(wanted.minimum), int(min(high, wanted.maximum)), least=least)


def effect(name: str, value: Any) -> float:
    """Where a value stands among those of its knob; a schedule of drafts by its longest."""
    if name == PREFILL_CHUNK_SIZE and value == 0:
        return math.inf
    return largest(value) - 0.5 if isinstance(value, list | tuple) else float(value)


def neighbour(name: str, runs: Mapping[str, Any], reach: Reach, step: float, *, up: bool) -> Any | None:
    """The value one step up or down from what runs; None where there is none."""
    value = runs[name]
    if reach.choices:
        return _next(name, value, reach.choices, up=up)
    if isinstance(value, list | tuple):
        return None  # A schedule has no next one.
    off = name == PREFILL_CHUNK_SIZE
    budget = int(runs[MAX_NUM_BATCHED_TOKENS])
    if off and (value == 0 or value >= budget):
        return None if up else _down(budget, reach, step, off=off)
    if not up:
        return _down(value, reach, step, off=off)
    found = max(value + 1, math.floor(value * step + _NEARLY))
    if off and found >= budget and reach.low == 0:
        return 0
    found = min(found, reach.high, *([budget] if off else []))
    return found if found > value else None


def _down(value: int, reach: Reach, step: float, *, off: bool) -> int | None:
    found = max(min(value - 1, math.ceil(value / step - _NEARLY)), reach.low, reach.least, 1 if off else 0)
    return found if found < value else None


def _next(name: str, value: Any, choices: Sequence[Any], *, up: bool) -> Any | None:
    here = effect(name, value)
    others = [one for one in choices if canonical_json(one) != canonical_json(value)]
    if up:
        return min((one for one in others if effect(name, one) > here), key=lambda one: effect(name, one), default=None)
    return max((one for one in others if effect(name, one) < here), key=lambda one: effect(name, one), default=None)
