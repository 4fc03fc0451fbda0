"""Knobs that nodes declare, as one field of a form holds them: the contract's own have fields of their own. Pure.

What nodes declare is the service's to know, and so whether they take a value: here the form alone is read.
"""

import json
import re
from typing import Any

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.declared_knobs import is_name, kept_config

FIELD = "declared"
_BETWEEN = re.compile(r"[;,\s]\s*(?=[a-z]\w*\s*=)")
_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_BOUNDS = re.compile(rf"{_NUMBER}\s*(?:to|\.\.)\s*{_NUMBER}(\s+log)?")


def declared_values(text: str, field: str = FIELD) -> dict[str, Any]:
    """Of "block_size=32, watermark=0.25". Raises `BadRequest` that names the field."""
    return {name: _value(name, said, field) for name, said in _parts(text, field)}


def declared_ranges(text: str, field: str = FIELD) -> dict[str, KnobRange]:
    """Of "block_size = 16, 32; watermark = 0 to 0.5". Raises `BadRequest` that names the field."""
    found = {}
    for name, said in _parts(text, field):
        if bounds := _BOUNDS.fullmatch(said):
            low, high = json.loads(bounds[1]), json.loads(bounds[2])
            found[name] = KnobRange(minimum=low, maximum=high, log=bool(bounds[3]))
        else:
            values = [_value(name, one.strip(), field) for one in said.split(",") if one.strip()]
            found[name] = KnobRange(choices=values)
    return found


def _parts(text: str, field: str) -> list[tuple[str, str]]:
    found = []
    for part in _BETWEEN.split(text.strip()):
        name, told, said = (word.strip() for word in part.partition("="))
        said = said.strip(";, ")
        if not told or not said or not is_name(name):
            raise BadRequest(
                f"{field}: {part[:40]!r} wants to be knob=value, of a knob that nodes declare", field=field
            )
        found.append((name, said))
    return found


def _value(name: str, said: str, field: str) -> Any:
    try:
        value = json.loads(said)
    except ValueError:
        value = said
    try:
        return kept_config({name: value}).knobs()[name]
    except BadRequest as error:
        raise BadRequest(f"{field}: {error.message}", field=field) from error
