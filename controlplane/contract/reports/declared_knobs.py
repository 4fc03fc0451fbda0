"""Knobs that single nodes declare beside the contract's own: a setting of their engine each, with range and class.

Guarantee: a declared knob's value is a number, true or false, or a plain word, within what its node declares; where
fractions are allowed every value is a float, so that equal values have equal JSON. A configuration that does not name a
declared knob wants it as it was at the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from controlplane.contract.errors import KnobOutOfRange, UnknownKnob, nearest
from controlplane.contract.knobs import (
    KNOBS,
    LARGEST_REPORTED,
    ChangeClass,
    EngineConfig,
    Knob,
    Scalar,
    canonical_json,
    difference,
    parse_config,
)

AS_STARTED = "as at the start"
"""What a configuration wants of a declared knob that it does not name."""
MOST_DECLARED = 32
MOST_VALUES = 64
NAME_PATTERN = r"^[a-z][a-z0-9_]{0,63}$"
_NAME = re.compile(NAME_PATTERN)
_SCALAR: TypeAdapter[Any] = TypeAdapter(Scalar)
SCALAR_SCHEMA: dict[str, Any] = _SCALAR.json_schema()


class DeclaredKnob(BaseModel):
    """One knob as its node declares it: either `values`, in the order of their effect, or bounds (inclusive)."""

    model_config = ConfigDict(frozen=True)

    change_class: ChangeClass = Field(description="what a change of it takes on this node")
    start: Scalar = Field(description="its value where a configuration does not name it")
    values: tuple[Scalar, ...] | None = Field(
        default=None, min_length=1, max_length=MOST_VALUES, description="the values it may take, in the order of effect"
    )
    minimum: float | int | None = Field(
        default=None, allow_inf_nan=False, description="instead of `values`, with `maximum`; both whole: so is it"
    )
    maximum: float | int | None = Field(default=None, allow_inf_nan=False, description="the largest, with `minimum`")
    log: bool = Field(default=False, description="whether it acts by ratios rather than differences")
    unit: str = Field(default="", max_length=64, description="its unit")
    help: str = Field(default="", max_length=300, description="what it does")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        bounds = [bound for bound in (self.minimum, self.maximum) if bound is not None]
        if len(bounds) == 1 or bool(bounds) == (self.values is not None):
            raise ValueError("give either values, or minimum and maximum")
        if bounds and (bounds[0] > bounds[1] or max(map(abs, bounds)) > LARGEST_REPORTED):
            raise ValueError(f"minimum {bounds[0]} and maximum {bounds[1]} are no range")
        if self.log and not (bounds and bounds[0] > 0):
            raise ValueError("log wants a minimum above 0")
        if self.values is not None and len({canonical_json(value) for value in self.values}) < len(self.values):
            raise ValueError("values: one is there twice")
        try:
            self.__dict__["start"] = self.parse(self.start, "start")
        except KnobOutOfRange as error:
            raise ValueError(error.message) from error
        return self

    @property
    def is_whole(self) -> bool:
        """Of one with bounds: it takes whole numbers only."""
        return isinstance(self.minimum, int) and isinstance(self.maximum, int)

    @property
    def is_ordered(self) -> bool:
        """Whether its values are numbers."""
        return self.values is None or all(_is_number(value) for value in self.values)

    def parse(self, value: Any, field: str) -> Scalar:
        """The value in its canonical form. Raises `KnobOutOfRange` that names `field`."""
        unit = f" ({self.unit})" if self.unit else ""
        if self.values is not None:
            for own in self.values:
                if _is_number(own) and _is_number(value):
                    if own == value:
                        return own
                elif type(own) is type(value) and own == value:
                    return own
            listed = ", ".join(canonical_json(own).strip('"') for own in self.values)
            raise KnobOutOfRange(f"{field}: {_shown(value)} is not one of {listed}{unit}", field=field)
        assert self.minimum is not None and self.maximum is not None
        if not _is_number(value) or (self.is_whole and not isinstance(value, int)):
            kind = "whole number" if self.is_whole else "number"
            raise KnobOutOfRange(f"{field}: wants a {kind}{unit}, got {_shown(value)}", field=field)
        if not self.minimum <= value <= self.maximum:
            raise KnobOutOfRange(
                f"{field}: {value} is outside {self.minimum} to {self.maximum}{unit}",
                field=field,
                minimum=self.minimum,
                maximum=self.maximum,
            )
        return int(value) if self.is_whole else float(value)

    def reads(self, value: Any) -> Scalar:
        """A value as an engine reports it, in the form that `parse` gives; its bounds do not matter."""
        if self.values is None and not self.is_whole and _is_number(value):
            return float(value)
        found: Scalar = _SCALAR.validate_python(value)
        return next((own for own in self.values or () if _is_number(own) and own == found), found)


Declared = Mapping[str, DeclaredKnob]
"""What one node declares, by name."""
DeclaredBySome = Mapping[str, Sequence[DeclaredKnob]]
"""What the nodes of a pool or fleet declare: each name with all its different declarations."""


def is_name(text: str) -> bool:
    """Whether a declared knob may be called so."""
    return _NAME.fullmatch(text) is not None and text not in KNOBS


def by_some(nodes: Iterable[Declared]) -> DeclaredBySome:
    """What several nodes declare."""
    found: dict[str, list[DeclaredKnob]] = {}
    for declared in nodes:
        for name, knob in declared.items():
            if knob not in (known := found.setdefault(name, [])):
                known.append(knob)
    return found


def parse_named(name: str, value: Any, declared: DeclaredBySome, *, prefix: str = "") -> Scalar:
    """The value of a knob that is none of the contract's own. Raises `UnknownKnob` where no node declares it,
    `KnobOutOfRange` where none that does takes the value."""
    field = prefix + name
    if not declared.get(name):
        told = "no such knob, and no node declares it; " if declared else "no such knob, "
        raise UnknownKnob(f"{field}: {told}{nearest(name, [*KNOBS, *declared])}", field=field)
    for knob in declared[name]:
        try:
            return knob.parse(value, field)
        except KnobOutOfRange as error:
            refused = error
    raise refused


def parse_declared(
    values: Mapping[str, Any], declared: DeclaredBySome, *, base: EngineConfig | None = None, prefix: str = ""
) -> EngineConfig:
    """As `parse_config`, with the knobs that nodes declare. What `base` names stays: nodes check it themselves."""
    own = {name: value for name, value in values.items() if name in KNOBS}
    more = {
        name: parse_named(name, values[name], declared, prefix=prefix) for name in sorted(values) if name not in own
    }
    return with_more(parse_config(own, base=base, prefix=prefix), more)


def kept_config(values: Mapping[str, Any], *, prefix: str = "") -> EngineConfig:
    """A configuration that was checked when it was made: of names not the contract's the form is checked alone.

    Raises `UnknownKnob` or `KnobOutOfRange`.
    """
    own = {name: value for name, value in values.items() if name in KNOBS}
    more = {}
    for name in sorted(values.keys() - own.keys()):
        field = prefix + name
        if not is_name(name):
            raise UnknownKnob(f"{field[:100]}: no such knob, {nearest(name, list(KNOBS))}", field=field[:100])
        try:
            more[name] = _SCALAR.validate_python(values[name])
        except ValidationError as error:
            wants = "a number, true or false, or a plain word"
            raise KnobOutOfRange(f"{field}: wants {wants}, got {_shown(values[name])}", field=field) from error
    return with_more(parse_config(own, prefix=prefix), more)


def with_more(config: EngineConfig, more: Mapping[str, Scalar]) -> EngineConfig:
    """The configuration with these values of declared knobs, which were checked."""
    return config.model_copy(update=dict(more)) if more else config


def started_as(declared: Declared, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration means on a node: with the starts of the declared knobs that it does not name."""
    return {**{name: knob.start for name, knob in declared.items()}, **wanted}


def completed(config: EngineConfig, declared: Declared) -> EngineConfig:
    """The same of a configuration."""
    there = config.knobs()
    return with_more(config, {name: knob.start for name, knob in declared.items() if name not in there})


def between(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """(old, new) of each knob with another value in two configurations, in the contract's order; `AS_STARTED` of a
    declared one that one of them does not name."""
    unnamed = dict.fromkeys([*old, *new], AS_STARTED)
    found = difference({**unnamed, **new}, {**unnamed, **old})
    return {name: (found[name][1], found[name][0]) for name in names_in_order(found)}


def knob_of(name: str, declared: DeclaredBySome) -> Knob:
    """How a knob is shown to people, whoever names it: the contract's, or the first declaration."""
    if name in KNOBS:
        return KNOBS[name]
    own = next(iter(declared.get(name, ())), None)
    if own is None:
        return Knob(name, "", "Declared by a node that is not there now.", "")
    choices = tuple(canonical_json(value).strip('"') for value in own.values or ())
    return Knob(name, own.unit, own.help, own.start, own.minimum, own.maximum, choices, vllm=own.change_class)


def names_in_order(names: Iterable[str]) -> list[str]:
    """The contract's knobs as they are listed there, then the others by name."""
    given = set(names)
    return [*(name for name in KNOBS if name in given), *sorted(given - KNOBS.keys())]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, bool | int | float) else repr(str(value)[:40])
    return text if len(text) <= 60 else text[:57] + "..."
