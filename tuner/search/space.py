"""The search space: which values each knob may take, in the order of their effect.

Guarantee: every knob is a finite ordered list of `values`, stored as they are, and the search's model goes by their
positions. So 0 = off stands where it acts (a chunk size that is off is the largest of all), a step is a ratio, and a
proposal is a round number that a person recognises. What the pool runs now is always one of the values. Configurations
known not to run are never proposed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.errors import KnobOutOfRange, UnknownKnob, nearest
from controlplane.contract.knobs import (
    KNOBS,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    QUANTIZATION,
    Quantization,
    canonical_json,
    largest,
    parse_knob,
)
from controlplane.contract.planning.memory_estimate import refusal
from controlplane.contract.reports.declared_knobs import Declared, DeclaredKnob, kept_config
from controlplane.contract.reports.node_memory import NodeMemory

DEFAULT_VALUES: dict[str, list[Any]] = {
    MAX_NUM_BATCHED_TOKENS: [32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048],
    PREFILL_CHUNK_SIZE: [32, 64, 128, 256, 512, 0],
    NUM_SPECULATIVE_TOKENS: [0, 1, 2, 3, 4, 6, 8],
    QUANTIZATION: [Quantization.NONE.value, Quantization.INT8.value, Quantization.INT4.value, Quantization.FP8.value],
}
_MOST_GRID_VALUES = 13
MOST_CANDIDATES = 4096
"""Configurations that a search weighs against each other at once."""


@dataclass(frozen=True)
class Held:
    """What a node's engine tells of its memory, and the knobs that it ran then."""

    memory: NodeMemory
    runs: Mapping[str, Any]

    def misfit(self, knobs: Mapping[str, Any]) -> str:
        """Why this configuration cannot fit; empty where it may."""
        against = refusal(self.memory, self.runs, knobs)
        return "" if against is None else against.problem


@dataclass(frozen=True)
class Capabilities:
    """What the trial node truly can: weight formats, and upper bounds of knobs where the engine states them; what it
    holds, where it tells that."""

    quantization: tuple[str, ...] = (Quantization.NONE.value,)
    maximum: Mapping[str, int] | None = None
    minimum: Mapping[str, int] | None = None
    tokens_at_least_seqs: bool = False  # vLLM refuses to start with fewer batched tokens than sequences.
    held: Held | None = None
    declared: Declared = field(default_factory=dict)  # Its own knobs, which a study may search by name.

    def allows(self, name: str, value: Any) -> bool:
        if name == QUANTIZATION:
            return str(value) in self.quantization
        if name in self.declared:
            try:
                self.declared[name].parse(value, name)
            except KnobOutOfRange:
                return False
            return True
        if isinstance(value, int):
            off = value == 0 and KNOBS[name].minimum == 0
            below = value <= (self.maximum or {}).get(name, value)
            return off or (below and value >= (self.minimum or {}).get(name, value))
        return True


@dataclass(frozen=True)
class Space:
    """`values`: knob to its candidate values in order of effect. `fixed`: every other knob as the pool runs it."""

    values: dict[str, list[Any]]
    fixed: dict[str, Any]
    tokens_at_least_seqs: bool = False
    held: Held | None = None

    def distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        """The values themselves, in their order; a schedule of drafts as JSON text."""
        return {
            name: optuna.distributions.CategoricalDistribution([_stored(value) for value in values])
            for name, values in self.values.items()
        }

    def complete(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The full configuration with these values, in canonical form: a chunk no step can reach is off."""
        knobs = kept_config({**self.fixed, **chosen}).knobs()
        if knobs[PREFILL_CHUNK_SIZE] >= knobs[MAX_NUM_BATCHED_TOKENS]:
            knobs[PREFILL_CHUNK_SIZE] = 0
        return knobs

    def chosen(self, knobs: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the searched knobs; one that is not in its list becomes the nearest."""
        found: dict[str, Any] = {}
        for name, values in self.values.items():
            value = _plain(knobs[name])
            if value not in values:
                value = values[_nearest(values, value)] if _has_order(name, values) else values[0]
            found[name] = value
        return found

    def params(self, knobs: Mapping[str, Any]) -> dict[str, Any]:
        """A configuration as Optuna stores it."""
        return {name: _stored(value) for name, value in self.chosen(knobs).items()}

    def places(self, configurations: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """Where configurations lie, one row each: positions within 0 and 1 for ordered knobs, a number for a format."""
        rows = np.empty((len(configurations), len(self.values)))
        for row, knobs in zip(rows, configurations, strict=True):
            chosen = self.chosen(knobs)
            for column, (name, values) in enumerate(self.values.items()):
                position = values.index(chosen[name])
                row[column] = position / max(1, len(values) - 1) if _has_order(name, values) else position
        return rows

    @property
    def ordered(self) -> NDArray[np.bool_]:
        """Which columns of `places` have an order."""
        return np.array([_has_order(name, values) for name, values in self.values.items()])

    def configurations(self, random: Random, most: int = MOST_CANDIDATES) -> list[dict[str, Any]]:
        """All that may run, each once; of a larger space as many drawn at random."""
        if math.prod(len(values) for values in self.values.values()) <= most:
            drawn = (dict(zip(self.values, values, strict=True)) for values in product(*self.values.values()))
        else:
            drawn = ({name: random.choice(values) for name, values in self.values.items()} for _ in range(most))
        found = {canonical_json(knobs): knobs for knobs in map(self.complete, drawn) if not self.infeasible(knobs)}
        return list(found.values())

    def infeasible(self, knobs: Mapping[str, Any]) -> str:
        """Why this configuration is known not to run or not to make sense; empty when it may."""
        tokens, drafts = knobs[MAX_NUM_BATCHED_TOKENS], largest(knobs[NUM_SPECULATIVE_TOKENS])
        if tokens < 1 + drafts:
            return f"a step of {tokens} tokens cannot verify {drafts} drafts"
        if self.tokens_at_least_seqs and tokens < knobs[MAX_NUM_SEQS]:
            return f"a step of {tokens} tokens cannot hold {knobs[MAX_NUM_SEQS]} sequences"
        return "" if self.held is None else self.held.misfit(knobs)


def build_space(
    wanted: Mapping[str, KnobRange],
    default: Mapping[str, Any],
    capabilities: Capabilities,
    suggested: Sequence[Mapping[str, Any]] = (),
) -> Space:
    """The space of a study: its own ranges, or the default one, and what it suggests, as far as the trial node is able.

    `default` is the pool's full effective configuration. Raises UnknownKnob or KnobOutOfRange for a wrong range.
    """
    values: dict[str, list[Any]] = {}
    for name, candidates in candidates_of(wanted, capabilities.declared, suggested).items():
        allowed = [value for value in candidates if capabilities.allows(name, value)]
        current = _plain(default[name])
        if current not in allowed:
            allowed.append(current)
        if len(allowed) > 1:
            values[name] = _sorted(name, allowed, capabilities.declared)
    fixed = {name: _plain(value) for name, value in default.items() if name not in values}
    return Space(values, fixed, capabilities.tokens_at_least_seqs, capabilities.held)


def held_whole(
    space: Space, default: Mapping[str, Any], suggested: Sequence[Mapping[str, Any]], declared: Declared
) -> list[dict[str, Any]]:
    """Of the suggested configurations those that can be measured as they stand, each with the rest of `default`."""
    own = [{name: _suggested_value(name, value, declared) for name, value in knobs.items()} for knobs in suggested]
    return [
        {**default, **knobs}
        for knobs in own
        if all(value in space.values.get(name, [space.fixed.get(name)]) for name, value in knobs.items())
    ]


def with_starts(default: Mapping[str, Any], wanted: Collection[str], declared: Declared) -> dict[str, Any]:
    """What the pool runs, with what it means of the declared knobs that a study searches and its revision leaves out:
    that they are as the trial node declares their start. `wanted`: names of what it searches."""
    found = {name: knob.start for name, knob in declared.items() if name in wanted}
    return {**found, **default}


def candidates_of(
    wanted: Mapping[str, KnobRange], declared: Declared, suggested: Sequence[Mapping[str, Any]] = ()
) -> Mapping[str, list[Any]]:
    """Knob to all values that a study asks for, or by default would try, and those of what it suggests, whatever a node
    can.

    Raises `UnknownKnob` for one that is neither the contract's nor `declared` by the trial node.
    """
    asked = {name: _values_of(name, given, declared) for name, given in wanted.items()}
    found = {name: list(values) for name, values in (asked or DEFAULT_VALUES).items()}
    for knobs in suggested:
        for name, value in knobs.items():
            own = _suggested_value(name, value, declared)
            if own not in (values := found.setdefault(name, [])):
                values.append(own)
    return found


def _suggested_value(name: str, value: Any, declared: Declared) -> Any:
    return _values_of(name, KnobRange(choices=[value]), declared)[0]


def _values_of(name: str, given: KnobRange, declared: Declared) -> list[Any]:
    field = f"space.{name}"
    if name not in KNOBS:
        if name not in declared:
            mend = nearest(name, [*KNOBS, *declared])
            raise UnknownKnob(f"{field}: the trial node declares no such knob; {mend}", field=field)
        return _declared_values(declared[name], given)
    if given.choices is not None:
        return [_plain(parse_knob(name, choice, prefix="space.")) for choice in given.choices]
    low = int(parse_knob(name, given.minimum, prefix="space."))
    high = int(parse_knob(name, given.maximum, prefix="space."))
    if high < low:
        raise KnobOutOfRange(f"{field}: the maximum {high} is below the minimum {low}", field=field)
    if high - low < _MOST_GRID_VALUES:
        return list(range(low, high + 1))
    steps = [place / (_MOST_GRID_VALUES - 1) for place in range(_MOST_GRID_VALUES)]
    if given.log:
        floor = max(1, low)
        grid = {round(floor * (high / floor) ** step) for step in steps} | {low}
    else:
        grid = {round(low + (high - low) * step) for step in steps}
    return sorted(grid)


def _declared_values(knob: DeclaredKnob, given: KnobRange) -> list[Any]:
    """Those asked for in the knob's own form, whether it takes them or not."""
    if given.choices is not None:
        return [knob.reads(choice) for choice in given.choices]
    assert given.minimum is not None and given.maximum is not None  # KnobRange has one of the two forms.
    low, high, steps = given.minimum, given.maximum, _MOST_GRID_VALUES - 1
    if knob.is_whole and high - low < _MOST_GRID_VALUES:
        return list(range(int(low), int(high) + 1))
    shares = [place / steps for place in range(_MOST_GRID_VALUES)]
    grid = [low * (high / low) ** share if given.log else low + (high - low) * share for share in shares]
    whole = {round(value) for value in grid} if knob.is_whole else {float(f"{value:.4g}") for value in grid[1:-1]}
    return sorted({knob.reads(value) for value in (low, high, *whole)})


def _has_order(name: str, values: Sequence[Any]) -> bool:
    """Whether values lie along a line: all but weight formats, and words and switches of declared knobs."""
    if name in KNOBS:
        return name != QUANTIZATION
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _sorted(name: str, allowed: list[Any], declared: Declared) -> list[Any]:
    if name in KNOBS:
        return sorted(allowed, key=lambda value: _order(name, value))
    listed = list(declared[name].values or ()) if name in declared else []
    if _has_order(name, allowed) and not listed:
        return sorted(allowed)
    return sorted(allowed, key=lambda value: listed.index(value) if value in listed else len(listed))


def _stored(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """JSON form: lists for tuples, text for enums."""
    return json.loads(json.dumps(value))


def _order(name: str, value: Any) -> tuple[int, float, str]:
    """Where a value stands by its effect: an unlimited chunk last, a draft schedule by its longest draft."""
    if name == PREFILL_CHUNK_SIZE and value == 0:
        return (1, 0.0, "")
    if isinstance(value, list):
        return (0, largest(value) - 0.5, json.dumps(value))
    if isinstance(value, str):
        return (0, 0.0 if value == Quantization.NONE.value else 1.0, value)
    return (0, float(value), "")


def _nearest(values: Sequence[Any], value: Any) -> int:
    """The position of the number nearest to `value` by ratio; a schedule counts as its longest draft."""
    number = _number(value) + 1
    distances = [abs((_number(other) + 1) / number - 1) for other in values]
    return distances.index(min(distances))


def _number(value: Any) -> float:
    return value if isinstance(value, float) else largest(value)
