"""A validator of effective configurations that salvages: what an agent reports is taken part by part.

Guarantee: whatever an agent sends, or an older version has stored, what comes out is a valid `EffectiveConfig` of the
contract's knobs and of those that the node declares itself, each of its knob's type, finite and bounded; every part
that was left out is named.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from controlplane.contract.bodies.nodes import MOST_ENTRIES, EffectiveConfig
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import KNOBS, ChangeClass, reported_knob
from controlplane.contract.reports.declared_knobs import MOST_DECLARED, Declared, DeclaredKnob, is_name
from controlplane.contract.reports.model_shape import ModelShape
from controlplane.contract.reports.node_memory import NodeMemory

logger = logging.getLogger(__name__)

MOST_PROBLEMS = 8
MOST_REMEMBERED, LONGEST_REMEMBERED = 4096, 8192
"""Configurations that are not read twice, and the characters of the longest: agents that are told the same report the
same, and a node's stands as it was reported until it reports another."""
_NUMERIC = frozenset(knob.name for knob in KNOBS.values() if not knob.choices)
_KEYS: Mapping[str, frozenset[str]] = {
    "knobs": frozenset(KNOBS),
    "sources": frozenset(KNOBS),
    "change_classes": frozenset(KNOBS),
    "live_limits": _NUMERIC,
    "live_floors": _NUMERIC,
    "limits": _NUMERIC,
    "costs": frozenset(change.value for change in ChangeClass),
}
"""The parts that are mappings, each with the keys it may have."""
_WITH_DECLARED = ("knobs", "sources")
"""Those that may also name what the node declares."""
_VALUES = {
    name: TypeAdapter[Any](get_args(EffectiveConfig.model_fields[name].annotation)[1])
    for name in _KEYS
    if name != "knobs"
}
"""... and what their values must be; a knob's is the contract's to say (`reported_knob`)."""
_FORMAT = TypeAdapter[Any](get_args(EffectiveConfig.model_fields["formats"].annotation)[0])


def read(body: bytes) -> tuple[EffectiveConfig | None, list[str]]:
    """The good parts of a reported one, to be read only, and what was wrong with the others. None: without revision or
    knobs."""
    found = _known(body) if len(body) <= LONGEST_REMEMBERED else None
    return (found, []) if found is not None else _anew(body)


@lru_cache(maxsize=MOST_REMEMBERED)
def _known(body: bytes) -> EffectiveConfig | None:
    """None where anything is wrong."""
    found, problems = _anew(body)
    return None if problems else found


def _anew(body: bytes) -> tuple[EffectiveConfig | None, list[str]]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None, ["not JSON in UTF-8, or nested too deeply"]
    return salvage(said)


def salvage(said: Any) -> tuple[EffectiveConfig | None, list[str]]:
    """As `read`, of parsed JSON."""
    if not isinstance(said, dict):
        return None, ["wants an object with revision, knobs and sources"]
    whole = _whole(said)
    return (whole, []) if whole is not None else _part_by_part(said)


def _whole(said: dict[str, Any]) -> EffectiveConfig | None:
    """What part by part would come to, many times faster; None where not every part is good."""
    try:
        found = EffectiveConfig.model_validate(said)
        if any(found.knobs[name] != _reported(name, value, found.declared) for name, value in found.knobs.items()):
            return None
    except (ValidationError, BadRequest):
        return None
    known = all(said.get(name, {}).keys() <= _keys(name, found.declared) for name in _KEYS)
    known = known and all(map(is_name, found.declared))
    words = (word for knob in found.declared.values() for word in (knob.unit, knob.help))
    storable = all(text == _storable(text) for text in (*found.sources.values(), *found.formats, *words))
    return found if known and storable else None


def _part_by_part(said: dict[str, Any]) -> tuple[EffectiveConfig | None, list[str]]:
    problems: list[str] = []
    parts: dict[str, Any] = {}
    for name in ("revision", "knobs"):
        if name not in said:
            return None, [f"{name}: is required, and missing"]
    try:
        parts["revision"] = EffectiveConfig(revision=said["revision"], knobs={}).revision
    except ValidationError as error:
        return None, [f"revision: {_reason(error)}"]
    if not isinstance(said["knobs"], dict):
        return None, ["knobs: wants an object"]
    parts["declared"] = declared = dict(_declared(said.get("declared", {}), problems))
    for name in _KEYS:
        if name in said:
            parts[name] = dict(_entries(name, said[name], declared, problems))
    if "formats" in said:
        parts["formats"] = list(_formats(said["formats"], problems))
    if said.get("memory") is not None:
        parts["memory"] = _memory(said["memory"], problems)
    if said.get("shape") is not None:
        try:
            parts["shape"] = ModelShape.model_validate(said["shape"])
        except ValidationError as error:
            problems.append(f"shape.{_reason(error)}")
    if "cache_reset" in said:
        try:
            parts["cache_reset"] = EffectiveConfig(revision=0, knobs={}, cache_reset=said["cache_reset"]).cache_reset
        except ValidationError as error:
            problems.append(_reason(error))
    return EffectiveConfig(**parts), _few(problems)


def stored(node: str, said: Mapping[str, Any] | None) -> EffectiveConfig | None:
    """What the database holds of a node; what an older version has let in is left out, and logged once."""
    if said is None:
        return None
    found = _good(said)
    if found is not None:
        return found
    salvaged, problems = salvage(dict(said))
    _say_once(node, "; ".join(problems))
    return salvaged


def stored_text(node: str, text: str | None) -> EffectiveConfig | None:
    """As `stored`, of the JSON as the database keeps it; to be read only."""
    if text is None:
        return None
    found = _good_text(text) if len(text) <= LONGEST_REMEMBERED else None
    return found if found is not None else stored(node, json.loads(text))


@lru_cache(maxsize=MOST_REMEMBERED)
def _good_text(text: str) -> EffectiveConfig | None:
    return _good(json.loads(text))


def _good(said: Mapping[str, Any]) -> EffectiveConfig | None:
    """None where not every part is good."""
    try:
        found = EffectiveConfig.model_validate(said)
        if all(found.knobs[name] == _reported(name, found.knobs[name], found.declared) for name in found.knobs):
            return found
    except (ValidationError, BadRequest):
        pass
    return None


@lru_cache(maxsize=1024)
def _say_once(node: str, problems: str) -> None:
    logger.warning("node %s: stored parts of its effective configuration are left out: %s", node, problems)


def _keys(part: str, declared: Declared) -> frozenset[str]:
    return _KEYS[part] | declared.keys() if declared and part in _WITH_DECLARED else _KEYS[part]


def _reported(name: str, value: Any, declared: Declared, *, prefix: str = "") -> Any:
    """Raises `BadRequest` or `ValidationError`."""
    return declared[name].reads(value) if name in declared else reported_knob(name, value, prefix=prefix)


def _declared(said: Any, problems: list[str]) -> Iterator[tuple[str, DeclaredKnob]]:
    if not isinstance(said, dict):
        problems.append("declared: wants an object")
        return
    if len(said) > MOST_DECLARED:
        problems.append(f"declared: at most {MOST_DECLARED}, got {len(said)}")
    for name, knob in list(said.items())[:MOST_DECLARED]:
        if not is_name(name):
            problems.append(f"declared.{name[:64]}: no name for a declared knob")
            continue
        try:
            found = DeclaredKnob.model_validate(knob)
        except ValidationError as error:
            problems.append(f"declared.{name}: {_reason(error)}")
        else:
            yield name, found.model_copy(update={"unit": _storable(found.unit), "help": _storable(found.help)})


def _entries(part: str, said: Any, declared: Declared, problems: list[str]) -> Iterator[tuple[str, Any]]:
    if not isinstance(said, dict):
        problems.append(f"{part}: wants an object")
        return
    for key, value in said.items():
        field = f"{part}.{key[:64]}"
        if key not in (keys := _keys(part, declared)):
            problems.append(f"{field}: not one of {', '.join(sorted(keys))}")
            continue
        try:
            good = (
                _reported(key, value, declared, prefix="knobs.")
                if part == "knobs"
                else _VALUES[part].validate_python(value)
            )
        except BadRequest as error:
            problems.append(error.message)
        except ValidationError as error:
            problems.append(f"{field}: {_reason(error)}")
        else:
            yield key, _storable(good) if isinstance(good, str) else good


def _formats(said: Any, problems: list[str]) -> Iterator[str]:
    if not isinstance(said, list):
        problems.append("formats: wants a list")
        return
    if len(said) > MOST_ENTRIES:
        problems.append(f"formats: at most {MOST_ENTRIES}, got {len(said)}")
    for place, value in enumerate(said[:MOST_ENTRIES]):
        try:
            yield _FORMAT.validate_python(value)
        except ValidationError as error:
            problems.append(f"formats.{place}: {_reason(error)}")


def _memory(said: Any, problems: list[str]) -> NodeMemory | None:
    """The figures that are figures; a newer agent's others are passed over."""
    if not isinstance(said, dict):
        problems.append("memory: wants an object")
        return None
    told = {name: value for name, value in said.items() if name in NodeMemory.model_fields}
    try:
        return NodeMemory.model_validate(told)
    except ValidationError as error:
        wrong = {str(one["loc"][0]): one["msg"] for one in error.errors(include_url=False, include_input=False)}
        problems += [f"memory.{name}: {message[:1].lower() + message[1:]}" for name, message in wrong.items()]
        return NodeMemory.model_validate({name: value for name, value in told.items() if name not in wrong})


def _storable(text: str) -> str:
    """Without what no database keeps: a zero byte, half of a surrogate pair."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"][:1].lower() + first["msg"][1:]
    return f"{place}: {message}" if place else message


def _few(problems: list[str]) -> list[str]:
    """The first of them, and how many more there are."""
    more = len(problems) - MOST_PROBLEMS
    return problems if more <= 0 else [*problems[:MOST_PROBLEMS], f"and {more} more parts"]
